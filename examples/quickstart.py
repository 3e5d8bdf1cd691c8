"""A first tour: NumPy's functions, on an engine of your choice."""

import numpy as np

import pycudakit as pk

# Arrays in, arrays out, with NumPy's broadcasting and types.
prices = np.array([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]], dtype=np.float32)
discounts = np.array([0.5, 0.25, 0.0], dtype=np.float32)
print(pk.multiply(prices, pk.subtract(1, discounts)))

# Any layout will do, and a result can go into an array that is there already.
total = np.zeros(3, np.float32)
pk.add(prices[0, ::-1], prices[1, ::-1], out=total)
print(total)

# Integers are NumPy's to the bit.
print(pk.divmod(np.array([7, -7]), 4))

# So are warnings.
with np.errstate(divide="raise"):
    try:
        pk.divide(prices, 0)
    except FloatingPointError as error:
        print(error)

# Which engines there are, and where the last call ran.
for name, status in pk.engines().items():
    print(f"{name}: {'available' if status else 'not available'}")
with pk.engine("numpy"):
    pk.sqrt(prices)
print(pk.last_call().engine, "-", pk.last_call().reason)
