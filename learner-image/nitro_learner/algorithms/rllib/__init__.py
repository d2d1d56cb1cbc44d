"""RLlib's learners (PPO, APPO, IMPALA) behind our actors.

RLlib's Learner runs in this process, without a Ray runtime. Ray comes with the learner's extra `rllib`;
these modules are imported only by jobs that ask for it.
"""
