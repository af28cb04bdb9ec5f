module github.com/oncekey/oncekey/adapters/connect

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/oncekey/oncekey v0.0.0
	github.com/oncekey/oncekey/adapters/internal/rpc v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/tidwall/gjson v1.20.2 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.3.0 // indirect
	github.com/tidwall/sjson v1.2.9 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace (
	github.com/oncekey/oncekey => ../..
	github.com/oncekey/oncekey/adapters/internal/rpc => ../internal/rpc
)
