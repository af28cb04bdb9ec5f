package failover

import (
	"testing"

	"github.com/oncekey/oncekey/core/internal/system/service"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

func TestMain(m *testing.M) { service.Main(postgrestest.Main(m)) }

// heavy bounds the concurrent tests with half a dozen servers each. With more of them, busy
// servers would look dead.
var heavy = make(chan struct{}, 2)

// takeTurn waits until the test may start its servers. They are stopped before the next
// test's turn.
func takeTurn(t *testing.T) {
	t.Helper()
	heavy <- struct{}{}
	t.Cleanup(func() { <-heavy })
}
