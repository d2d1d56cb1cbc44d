# An image of the former release: its code in the present image, whose dependencies have the same versions. Its own Dockerfiles
# would download them once more. The context is its tree.
ARG PYTHON_IMAGE=python:3.11-slim
ARG IMAGE

FROM ${PYTHON_IMAGE} AS code
WORKDIR /src
ENV PIP_CONSTRAINT=/src/constraints.txt PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv --without-pip /opt/nitro
COPY . .
ARG PACKAGES
RUN pip --python /opt/nitro/bin/python install --no-deps ${PACKAGES}

FROM ${IMAGE}
USER 0
RUN rm -r /opt/nitro/lib/python3*/site-packages/nitro_*
COPY --from=code /opt/nitro/bin /opt/nitro/bin
COPY --from=code /opt/nitro/lib /opt/nitro/lib
USER 65532:65532
