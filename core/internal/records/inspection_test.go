package records_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page := storage.Page{Limit: 1, LookAt: 1000, Within: 10 * time.Second}
		budget, err := records.NewBudget(&storage.Filter{}, &page)
		if err != nil || budget.Left() != 1000 {
			t.Fatalf("%d records are left, and the error is %v", budget.Left(), err)
		}
		if batch := budget.Grow(100, time.Millisecond); batch != 200 {
			t.Errorf("after a quick batch of 100 the next has %d, want 200", batch)
		}
		if batch := budget.Grow(100, 5*time.Second); batch != 100 {
			t.Errorf("after a batch of 100 in 5 of 10 seconds the next has %d, want 100", batch)
		}
		if budget.Looked = 900; budget.Left() != 100 {
			t.Errorf("%d records are left, want 100", budget.Left())
		}
		<-time.After(10 * time.Second)
		if batch := budget.Grow(100, 10*time.Second); budget.Left() != 0 || batch != 1 {
			t.Errorf("after its time %d records are left, and the next batch has %d, want 0 and 1", budget.Left(), batch)
		}
	})
}
