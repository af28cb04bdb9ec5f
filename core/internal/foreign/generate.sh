#!/bin/sh
# Generates the code in the folders from openapi.yaml, payments.proto and payments.graphqls, by go generate. It needs protoc
# (protobuf-compiler). The other generators are built in a folder of their own, so that go.mod does not name them.
set -eu

GOBIN=$(mktemp -d)
trap 'rm -rf "$GOBIN"' EXIT
export GOBIN PATH="$GOBIN:$PATH"

go install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
go install github.com/ogen-go/ogen/cmd/ogen@v1.20.3
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
go install github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-grpc-gateway@v2.29.0
go install github.com/twitchtv/twirp/protoc-gen-twirp@v8.1.3+incompatible
go install github.com/99designs/gqlgen@v0.17.95

oapi-codegen -generate chi-server,strict-server,models -package oapichi -o oapichi/server.gen.go openapi.yaml
oapi-codegen -generate gin-server,strict-server,models -package oapigin -o oapigin/server.gen.go openapi.yaml
ogen --config ogen.yml --target ogenapi --package ogenapi --clean openapi.yaml
protoc --go_out=rpc --go_opt=paths=source_relative --go-grpc_out=rpc --go-grpc_opt=paths=source_relative \
	--twirp_out=rpc --twirp_opt=paths=source_relative \
	--grpc-gateway_out=rpc --grpc-gateway_opt=paths=source_relative,grpc_api_configuration=gateway.yaml payments.proto
gqlgen generate
