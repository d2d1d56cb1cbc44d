"""The learner inside a cluster: its job comes from the API server and its reports go there."""
