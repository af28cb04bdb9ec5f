// Package httpclient_test tests the Transport as a caller and a server see it.
//
//	fixture_test.go     a server with scripted responses, which records its requests
//	endtoend_test.go    the payments example behind a network that loses a third of everything
//	others              one file per section of the package comment
package httpclient_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

// quiet is for servers whose clients disconnect on purpose.
var quiet = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
