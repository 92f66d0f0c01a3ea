# syntax=docker/dockerfile:1
FROM golang:1.26.11-alpine AS build
WORKDIR /src

COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

COPY . .
ARG VERSION=
ENV CGO_ENABLED=0 GOCACHE=/cache/go-build
# The zone database goes into the binary, as make build does it: the final image has none.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache/go-build \
    go build -trimpath -ldflags "-s -w -X github.com/linkforge/linkforge/internal/cli.release=$VERSION" -o /out/linkforge ./server
RUN mkdir -p /out/tree/data /out/tree/tmp && chmod 700 /out/tree/data && chmod 1777 /out/tree/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
# The folders are copied with the one around them, so that they keep their owner and mode.
COPY --from=build --chown=65532:65532 /out/tree/ /
COPY --from=build /out/linkforge /linkforge

USER 65532:65532
ENV LINKFORGE_DATA_DIR=/data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 CMD ["/linkforge", "healthcheck"]
ENTRYPOINT ["/linkforge"]
