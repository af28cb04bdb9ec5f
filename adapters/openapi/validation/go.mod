module github.com/oncekey/oncekey/adapters/openapi/validation

go 1.26.0

require (
	github.com/getkin/kin-openapi v0.152.0
	github.com/oncekey/oncekey v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/go-openapi/jsonpointer v0.22.5 // indirect
	github.com/go-openapi/swag/jsonname v0.25.5 // indirect
	github.com/oasdiff/yaml v0.1.1 // indirect
	github.com/oasdiff/yaml3 v0.0.14 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.0 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace github.com/oncekey/oncekey => ../../..
