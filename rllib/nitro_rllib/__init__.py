"""RLlib's learners (PPO, APPO, IMPALA) behind our actors.

RLlib's Learner runs in this process, without a Ray runtime. The learner finds these classes by entry
points and imports them only for jobs that ask for it.
"""
