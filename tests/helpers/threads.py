"""Run a function in several threads at once."""

import threading


def run_in_threads(work, arguments):
    """Call a function with each argument in a thread of its own; raise the first exception."""
    raised = []

    def call(argument):
        try:
            work(argument)
        except BaseException as error:  # noqa: BLE001  (it is raised below)
            raised.append(error)

    threads = [threading.Thread(target=call, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
