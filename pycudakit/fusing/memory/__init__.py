"""Arrays in a fused function: what stands for them, what was asked of them, and whose memory they are in."""
