"""The algorithms of Ray's RLlib, whose settings have RLlib's own names.

`tuned` has the settings of RLlib's own MuJoCo benchmark (rllib/tuned_examples/ppo/benchmark_ppo_mujoco.py,
Ray 2.40), where it has any.
"""

from nitro_api.algorithms.record import AlgorithmRecord, Feeding, Hyperparameters, Rows, presets


class RllibHyperparameters(Hyperparameters):
    """None: the settings are in spec.algorithm.rllib."""


# fmt: off
_ALL = (
    #                              paper         tuned
    ("environment.envsPerActor",   1,            1),
    ("network.logStd",             "state",      "state"),
    ("evaluation.everyRounds",     1,            5),
    ("stop.rounds",                50,           60),
    ("scaling.scaler",             "nitro",      "nitro"),
    ("scaling.minActors",          8,            8),
    ("scaling.maxActors",          64,           64),
    ("scaling.initialActors",      16,           32),
    ("scaling.decay",              0.96,         0.97),
)
_PPO = (
    *_ALL,
    ("lr",                         5e-5,         3e-4),
    ("gamma",                      0.99,         0.99),
    ("lambda_",                    1.0,          0.95),
    ("clip_param",                 0.3,          0.3),
    ("kl_coeff",                   0.2,          0.2),
    ("kl_target",                  0.01,         0.01),
    ("entropy_coeff",              0.0,          0.0),
    ("vf_loss_coeff",              1.0,          0.01),
    ("vf_clip_param",              10.0,         10.0),
    ("num_epochs",                 30,           15),
    ("minibatch_size",             0,            4096),
)
_IMPALA = (
    *_ALL,
    ("lr",                         5e-4,         5e-4),
    ("gamma",                      0.99,         0.99),
    ("entropy_coeff",              0.01,         0.01),
    ("vf_loss_coeff",              0.5,          0.5),
    ("grad_clip",                  40.0,         40.0),
)
_APPO = (
    *_IMPALA,
    ("clip_param",                 0.4,          0.4),
    ("circular_buffer_num_batches", 8,           8),
    ("circular_buffer_iterations_per_batch", 2,  2),
    ("target_network_update_freq", 2,            2),
)
# fmt: on


def _record(name: str, feeding: Feeding, rows: Rows) -> AlgorithmRecord:
    return AlgorithmRecord(
        name=name,
        summary="Ray RLlib's learner does the update; the learner's image must have it",
        hyperparameters=RllibHyperparameters,
        feeding=feeding,
        presets=presets(rows, settings="rllib"),
        tensors=frozenset(["log_probs", "distribution"]),
        settings="rllib",
    )


RECORDS = (
    _record("rllib/ppo", "rounds", _PPO),
    _record("rllib/appo", "arrivals", _APPO),
    _record("rllib/impala", "arrivals", _IMPALA),
)
