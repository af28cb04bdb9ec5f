package serverproc

import (
	"slices"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

type suite func()

func (s suite) Run() int { s(); return 7 }

func TestSharedServerRunsUntilTheEnd(t *testing.T) {
	t.Parallel()
	var shared Shared[string]
	var log []string
	start := func(t testing.TB) string {
		log = append(log, "start")
		t.Cleanup(func() { log = append(log, "stop") })
		return "server"
	}
	early := judge(t, func(t testing.TB) { shared.Database(t, start) })
	code := shared.Main(suite(func() {
		broken := judge(t, func(t testing.TB) {
			shared.Database(t, func(t testing.TB) string { start(t); t.Fatal("no memory"); return "" })
		})
		testkit.Equal(t, broken.verdict, "failed", "a test whose server does not start")
		for _, want := range []string{"test1", "test2"} {
			if server, name := shared.Database(t, start); server != "server" || name != want {
				t.Errorf("got %s on %s, want %s on the server", name, server, want)
			}
		}
		log = append(log, "end of the tests")
	})).Run()
	if want := []string{"start", "stop", "start", "end of the tests", "stop"}; !slices.Equal(log, want) || code != 7 {
		t.Errorf("the log is %q with code %d, want %q with 7", log, code, want)
	}
	testkit.Equal(t, early.verdict, "failed", "a test without Main")
}
