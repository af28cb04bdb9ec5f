module github.com/oncekey/oncekey/core/pgstore

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.13.0
	github.com/oncekey/oncekey v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/tidwall/gjson v1.20.2 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.3.0 // indirect
	github.com/tidwall/sjson v1.2.9 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/oncekey/oncekey => ../..
