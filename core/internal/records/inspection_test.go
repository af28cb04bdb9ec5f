package records_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page := storage.Page{Limit: 1, LookAt: 1000, Within: 10 * time.Second}
		budget, err := records.NewBudget(&storage.Filter{}, &page)
		if err != nil || budget.Left() != 1000 {
			t.Fatalf("%d records are left, and the error is %v", budget.Left(), err)
		}
		testkit.Equal(t, budget.Grow(100, time.Millisecond), 200, "after a quick batch of 100 the next has")
		testkit.Equal(t, budget.Grow(100, 5*time.Second), 100, "after a batch of 100 in 5 of 10 seconds the next has")
		if budget.Looked = 900; budget.Left() != 100 {
			t.Errorf("%d records are left, want 100", budget.Left())
		}
		<-time.After(10 * time.Second)
		if batch := budget.Grow(100, 10*time.Second); budget.Left() != 0 || batch != 1 {
			t.Errorf("after its time %d records are left, and the next batch has %d, want 0 and 1", budget.Left(), batch)
		}
	})
}
