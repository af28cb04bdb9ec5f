package endtoend

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
)

// Case 4: the process is killed again and again, each time within or after a request. The
// next process replays all that a client got, and charges no order a second time.
func TestKilledAtAnyPoint(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(*testing.T, time.Duration) *fixture{
		"sqlite": newSQLiteFixture, "mysql": newMySQLFixture, "mariadb": newMariaDBFixture,
	}, func(t *testing.T, newFixture func(*testing.T, time.Duration) *fixture) {
		const kills, most = 6, 8 * time.Millisecond
		f := newFixture(t, 300*time.Millisecond)
		originals, unknown := map[request]answer{}, []request{}
		for n := range kills {
			process := f.start("chi")
			for pay, original := range originals {
				process.send(pay).expectCopyOf(t, original)
			}
			for _, pay := range unknown { // the charge may be there already
				if last := process.retryThrough(pay); last.status != done.status && last.status != created.status {
					t.Errorf("a retry of %s got %v, want the payment", pay.key, last)
				}
			}
			pay := payment("tok_ok").withKey(fmt.Sprintf("key-%d", n))
			answered := make(chan answer, 1)
			go func() { answered <- process.send(pay) }()
			time.Sleep(rand.N(most)) //nolint:forbidigo // any moment is right
			process.Kill()
			if original := <-answered; original.is(created) {
				originals[pay] = original
			} else {
				unknown = append(unknown, pay)
			}
		}
		t.Logf("%d responses, and %d requests without", len(originals), len(unknown))
		charged := map[string]int{}
		for _, e := range f.effects() {
			if charged[e.OrderID]++; charged[e.OrderID] > 1 {
				t.Errorf("%s was charged %d times", e.OrderID, charged[e.OrderID])
			}
		}
	})
}

// Case 19: the database server is killed, and comes back with all it has acknowledged.
func TestMySQLKilled(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]*mysqltest.Vendor{"mysql": mysqltest.MySQL, "mariadb": mysqltest.MariaDB}, func(t *testing.T, vendor *mysqltest.Vendor) {
		server := vendor.Start(t)
		f := newFixtureOver(t, 30*time.Second, server.DSN())
		first, second := f.startTwo()
		pay, other := payment("tok_ok"), payment("tok_ok").withKey("key-2")
		original := first.send(pay).expect(t, created)
		server.Kill()
		second.send(other).expect(t, unavailable)
		server.Restart()
		second.retryThrough(pay).expectCopyOf(t, original)
		second.retryThrough(other).expect(t, created)
		f.expectEffects(chargeBy(first, pay, 1), chargeBy(second, other, 1))
	})
}
