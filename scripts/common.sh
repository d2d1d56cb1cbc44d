# Settings that the scripts share; each can be given in the environment. To be sourced, after cd to the repository's root.
# shellcheck shell=bash disable=SC2034
DIGESTS=scripts/digests.env                # written by scripts/digests; without it tags are not pinned
: "${REGISTRY:=dev.local}"                 # prefix of the images; Knative asks no registry about dev.local
: "${VERSION:=$(<VERSION)}"                # tag of the images
: "${IMAGE_COMMAND:=docker build --tag}"   # called as: $IMAGE_COMMAND TAG CONTEXT --file F [--build-arg K=V ...]
: "${TORCH_INDEX:=}"                       # package index with CPU builds of torch; with it there is the image nitro-learner-cpu
: "${LEARNERS:=cuda${TORCH_INDEX:+ cpu}}"  # learner images to build: cuda is nitro-learner, cpu is nitro-learner-cpu
: "${LEARNER_EXTRAS:=}"                    # extras that get learner images of their own: "rllib experiments,mlflow" for nitro-learner-rllib and nitro-learner-experiments-mlflow
: "${ACTOR_EXTRAS:=}"                      # and an actor image: ACTOR_EXTRAS="smax onnx" for nitro-actor-smax and nitro-actor-onnx
: "${RELEASE:=nitro}"
: "${NAMESPACE:=nitro-system}"
: "${HELM_ARGS:=}"                         # more arguments of `helm upgrade`, as one word list
: "${KNATIVE:=v1.23.0}"                    # release of Knative Serving; 1.21 is the oldest that works
KNATIVE_MANIFESTS=https://github.com/knative/serving/releases/download/knative-$KNATIVE

say() { printf '== %s\n' "$*" >&2; }

need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || { echo "$program is needed and not on PATH" >&2; exit 1; }
  done
}
