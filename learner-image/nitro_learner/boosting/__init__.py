"""The boosting score: the ratio of the extreme eigenvalues of the objective's Hessian."""
