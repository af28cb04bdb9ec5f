// Package adapters_test is the HTTP contract: what a client and a handler see
// of a guarded route. It is one table over every way to mount a guard, so that
// the routers cannot drift apart.
//
//	mounting_test.go    the ways to mount a guard
//	service_test.go     a program with one guarded route, and its requests
//	store_test.go       stores that count, or stand for another process; the events
//	wire_test.go        the same over real connections
//	everything else     the contract, one chapter per file
package adapters_test

import (
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // debug mode prints every route
	goleak.VerifyTestMain(m)
}
