// Package httpclient_test is what a caller, and the server it calls, see of the
// Transport.
//
//	fixture_test.go     a server that answers as told, and remembers what it was sent
//	endtoend_test.go    the payments example behind a network that loses a third of everything
//	others              the package comment, a section a file
package httpclient_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

// quiet is for servers whose clients leave on purpose.
var quiet = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
