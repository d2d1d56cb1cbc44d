"""The boosting score's measurement: extreme eigenvalues of the surrogate's Hessian, and their ratio."""
