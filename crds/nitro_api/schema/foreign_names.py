"""What other libraries call the fields of a job: mistakes with these names are answered with ours.

A job has one name for each of its fields: none of these is a second one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nitro_api.algorithms.record import path_of
from nitro_api.algorithms.registry import RECORDS, settings_of


@dataclass(frozen=True)
class ForeignNames:
    """What others call a field.

    Attributes:
        field: its path below spec.
        sb3: in Stable-Baselines3, its wrappers and its zoo.
        rllib: in RLlib, the present name first.
        others: in CleanRL, EPyMARL and papers.
        setting: its name as a setting of algorithms; empty if it is none.
        remark: on what the field is, where it is not quite what the others mean.
    """

    field: str
    sb3: tuple[str, ...]
    rllib: tuple[str, ...]
    others: tuple[str, ...]
    setting: str = ""
    remark: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All that others call it."""
        return (*self.sb3, *self.rllib, *self.others)


_LENGTH = "which counts the steps of all environments of an actor"
_DECAY = "in environment steps"
_TARGET = "at which a KL penalty, klCoefficient, aims"

# fmt: off
_SETTINGS = (
    # a setting of algorithms; in Stable-Baselines3, in RLlib, elsewhere, a remark
    ("learningRateAnneal",    "linear_schedule lr_schedule", "", "anneal_lr"),
    ("learningRate",          "learning_rate", "lr lr_schedule", "step_size"),
    ("adamEpsilon",           "", "adam_epsilon", "adam_eps optim_eps"),
    ("gamma",                 "", "", "discount discount_factor"),
    ("gaeLambda",             "gae_lambda", "lambda_ lambda", "lam gae_lam"),
    ("clip",                  "clip_range", "clip_param", "clip_coef clip_eps clip_ratio eps_clip"),
    ("klCoefficient",         "", "kl_coeff use_kl_loss", "kl_coef"),
    ("klTarget",              "target_kl", "kl_target", "", _TARGET),
    ("entropyCoefficient",    "ent_coef", "entropy_coeff entropy_coeff_schedule", "entropy_coef"),
    ("valueCoefficient",      "vf_coef", "vf_loss_coeff", "value_loss_coef value_coef critic_coef"),
    ("valueClip",             "clip_range_vf", "vf_clip_param", "clip_vloss"),
    ("epochs",                "n_epochs", "num_epochs num_sgd_iter", "update_epochs ppo_epoch k_epochs"),
    ("minibatchSize",         "batch_size", "minibatch_size sgd_minibatch_size", "mini_batch_size"),
    ("maxGradNorm",           "max_grad_norm", "grad_clip", "clip_grad_norm grad_norm_clip"),
    ("standardiseAdvantages", "normalize_advantage", "standardize_advantages", "norm_adv"),
    ("normaliseObservations", "norm_obs normalize", "observation_filter",
                              "normalize_observations obs_norm"),
    ("normaliseRewards",      "norm_reward", "", "normalize_rewards standardise_rewards"),
    ("orthogonalInit",        "ortho_init", "", "use_orthogonal"),
    ("batchSize",             "batch_size", "train_batch_size train_batch_size_per_learner", ""),
    ("bufferBatches",         "", "circular_buffer_num_batches", ""),
    ("bufferUses",            "", "circular_buffer_iterations_per_batch", ""),
    ("targetUpdateFrequency", "target_update_interval", "target_network_update_freq", ""),
    ("replayRatio",           "train_freq gradient_steps", "training_intensity", "utd_ratio"),
    ("bufferSize",            "buffer_size", "replay_buffer_config capacity", "replay_size memory_size"),
    ("priorityAlpha",         "", "prioritized_replay_alpha", "per_alpha"),
    ("priorityBeta",          "", "prioritized_replay_beta", "per_beta"),
    ("priorityEpsilon",       "", "prioritized_replay_eps", "per_epsilon"),
    ("nStep",                 "", "n_step", "multi_step n_step_return"),
    ("targetUpdateSteps",     "target_update_interval", "target_network_update_freq",
                              "target_network_frequency target_update_interval_or_tau"),
    ("epsilonInitial",        "exploration_initial_eps", "initial_epsilon", "epsilon_start start_e"),
    ("epsilonFinal",          "exploration_final_eps", "final_epsilon", "epsilon_finish epsilon_end end_e"),
    ("epsilonSteps",          "exploration_fraction", "epsilon_timesteps", "epsilon_anneal_time", _DECAY),
    ("doubleQ",               "", "double_q", "double_dqn"),
    ("updatesPerStep",        "train_freq gradient_steps", "training_intensity", "utd_ratio replay_ratio"),
    ("tau",                   "", "", "polyak soft_update_tau"),
    ("warmUpSteps",           "learning_starts", "num_steps_sampled_before_learning_starts",
                              "start_steps start_timesteps random_steps"),
    ("layerNorm",             "", "", "use_layer_norm"),
    ("targetEntropy",         "", "", "ent_target"),
    ("explorationNoise",      "action_noise", "", "expl_noise act_noise"),
    ("policyDelay",           "", "", "policy_freq policy_frequency"),
    ("targetNoise",           "target_policy_noise", "", "policy_noise"),
    ("targetNoiseClip",       "", "", "noise_clip"),
    ("mixerUnits",            "", "mixing_embed_dim", ""),
    ("hypernetworkUnits",     "", "", "hypernet_embed"),
)
_FIELDS = (
    # a path below spec; in Stable-Baselines3, in RLlib, elsewhere, a remark
    ("environment.id",                 "env env_id", "", "environment_id gym_id env_name"),
    ("environment.kwargs",             "env_kwargs", "env_config", "env_args"),
    ("environment.rolloutLength",      "n_steps",
                               "rollout_fragment_length train_batch_size train_batch_size_per_learner",
                                       "num_steps unroll_length steps_per_epoch", _LENGTH),
    ("environment.envsPerActor",       "n_envs", "num_envs_per_env_runner num_envs_per_worker",
                                       "num_envs batch_size_run"),
    ("environment.frameStack",         "frame_stack n_stack", "framestack", "num_stack stack_size"),
    ("environment.clipRewards",        "clip_reward", "clip_rewards", ""),
    ("environment.rescaleActions",     "", "normalize_actions", "rescale_action"),
    ("environment.atari.frameSkip",    "frame_skip", "frameskip", "action_repeat"),
    ("environment.atari.frameSize",    "screen_size", "", ""),
    ("environment.atari.stickyActions", "action_repeat_probability", "", "repeat_action_probability"),
    ("network.type",                   "policy policy_class", "", ""),
    ("network",                        "policy_kwargs", "model model_config rl_module_spec", ""),
    ("network.hiddenSizes",            "net_arch", "fcnet_hiddens", "hidden_size hidden_dim hidden_layers"),
    ("network.activation",             "activation_fn", "fcnet_activation", "nonlinearity"),
    ("network.convLayers",             "", "conv_filters", ""),
    ("network.logStd",                 "log_std_init", "free_log_std", ""),
    ("network.recurrent",              "", "use_lstm", "use_rnn"),
    ("network.recurrent.hiddenSize",   "lstm_hidden_size", "lstm_cell_size", "rnn_hidden_dim"),
    ("stop.envSteps",                  "total_timesteps n_timesteps",
                                       "num_env_steps_sampled_lifetime timesteps_total",
                                       "t_max num_timesteps max_timesteps total_env_steps total_steps"),
    ("stop.rounds",                    "", "training_iteration stop_iters",
                                       "n_iterations num_iterations num_updates"),
    ("stop.targetReward",              "reward_threshold",
                                       "episode_return_mean episode_reward_mean stop_reward", ""),
    ("stop.duration",                  "", "time_total_s", "max_time"),
    ("evaluation.everyRounds",         "eval_freq", "evaluation_interval", "eval_interval test_interval"),
    ("evaluation.episodes",            "n_eval_episodes", "evaluation_duration",
                                       "eval_episodes num_eval_episodes"),
    ("learner.checkpoint.everyRounds", "save_freq", "checkpoint_frequency checkpoint_freq",
                                       "save_interval"),
    ("learner.checkpoint.keepLast",    "", "num_to_keep", ""),
    ("scaling.maxActors",              "", "num_env_runners num_workers num_rollout_workers",
                                       "n_workers n_actors num_actors"),
    ("seed",                           "", "", "random_seed"),
    ("learner.device",                 "device", "", "cuda"),
    ("learner.resources",              "", "num_gpus num_gpus_per_learner num_learners", ""),
    ("actor.resources",                "", "num_cpus_per_env_runner num_cpus_per_worker", ""),
    ("algorithm.name",                 "algo", "", "mixer"),
    ("algorithm.teamReward",           "", "", "common_reward"),
)
# fmt: on


def _made(field: str, names: Sequence[str], setting: str = "") -> ForeignNames:
    sb3, rllib, others, *remark = names
    return ForeignNames(
        field,
        tuple(sb3.split()),
        tuple(rllib.split()),
        tuple(others.split()),
        setting,
        "".join(remark),
    )


FOREIGN_NAMES = (
    *(_made(path_of(setting, "hyperparameters"), names, setting) for setting, *names in _SETTINGS),
    *(_made(field, names) for field, *names in _FIELDS),
)
"""Each field once. Of several with one name, the first that the job's algorithm has is meant."""


def plain(name: str) -> str:
    """A name without what libraries write differently."""
    return name.replace("_", "").replace("-", "").lower()


def known_as(name: str, algorithm: str | None = None) -> ForeignNames | None:
    """The field that others call `name`; None if nobody does.

    With the name of an algorithm it is a field that jobs with this algorithm can have. Those with RLlib's
    have its own names in place of ours.
    """
    record = RECORDS.get(algorithm or "")
    for row in FOREIGN_NAMES:
        if plain(name) not in map(plain, row.names):
            continue
        if record is None or not row.setting or row.setting in settings_of(record):
            return row
        if record.settings == "rllib" and row.rllib:
            return replace(row, field=path_of(row.rllib[0], record.settings), remark="")
    return None
