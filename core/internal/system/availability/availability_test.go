package availability

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/internal/system/soak"
)

// before and after are how long the load runs before an event, and after both services serve
// again.
const before, after = 3 * time.Second, 5 * time.Second

// outage is how long a failed server stays down where the test is the operator.
const outage = 3 * time.Second

// TestSoakAvailability measures one event after another, because each needs the machine for
// itself, and prints the table of docs/guarantees.md. An event whose servers are not
// installed is left out, with the reason.
//
//nolint:paralleltest,tparallel // see above
func TestSoakAvailability(t *testing.T) {
	soak.Duration(t)
	var outcomes []outcome
	for _, one := range []struct {
		name string
		make func(t *testing.T, outage time.Duration) scenario
	}{
		{"Redis failover", redisFailover},
		{"PostgreSQL failover", postgresFailover},
		{"Patroni", patroniFailover},
		{"Galera", galeraNode},
		{"deploy", deploy},
		{"full disk, SQLite", sqliteFull},
		{"full disk, PostgreSQL", postgresFull},
	} {
		t.Run(one.name, func(t *testing.T) {
			outcomes = append(outcomes, measure(t, one.make(t, outage), before, after))
		})
	}
	fmt.Fprint(t.Output(), table(outcomes))
	for _, o := range outcomes {
		fmt.Fprintf(t.Output(), "%s: the guard refused %s\n", o.name, o.refusals())
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(redisURL) != "" {
		service.Quiet()
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	service.Main(m)
}

const patience = service.Patience

// wait lets the load run, or an outage last. Nothing is judged by it.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
