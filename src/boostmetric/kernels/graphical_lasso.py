"""The graphical lasso, column by column: each is a lasso of one feature on the others."""

import math

from boostmetric.kernels.lanes import kernel


@kernel
def sweep(S, penalty, tol, most, W, coefficients, gradient):
    """Improve the covariance W, and the coefficients of each feature on the others, by one pass over the columns.

    Row c of `coefficients` minimises x'Wx / 2 - S[c]'x + penalty |x|_1 over x with x[c] = 0, to a change of `tol` of a
    coefficient in units of the two features, in at most `most` rounds; row and column c of W become W x, but not
    W[c, c]. Scratch: `gradient`.
    """
    n = S.shape[0]
    for c in range(n):
        x, small = coefficients[c], tol * math.sqrt(W[c, c])
        gradient[:] = S[c]
        for j in range(n):
            if x[j] != 0.0:
                for i in range(n):
                    gradient[i] -= x[j] * W[j, i]
        for _ in range(most):
            largest = 0.0
            for j in range(n):
                if j == c:
                    continue
                size, old = W[j, j], x[j]
                wanted = gradient[j] + size * old
                x[j] = math.copysign(max(abs(wanted) - penalty, 0.0), wanted) / size
                change = x[j] - old
                if change != 0.0:
                    for i in range(n):
                        gradient[i] -= change * W[j, i]
                    largest = max(largest, abs(change) * math.sqrt(size))
            if largest <= small:
                break
        for i in range(n):
            if i != c:
                W[c, i] = W[i, c] = S[c, i] - gradient[i]
