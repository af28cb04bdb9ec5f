package scopecount_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/internal/scopecount"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// A count survives its bytes, and bytes that are no count are corrupt, wherever they end.
func TestCountAsBytes(t *testing.T) {
	t.Parallel()
	limit := storage.ScopeLimit{InFlight: 2, NewKeys: 3, Window: time.Minute}
	var count scopecount.Count
	const now = 1_700_000_000_000_000
	for range 2 {
		count.Admit(now, storage.Place{Token: storage.NewToken()}, time.Second, limit)
	}
	text := count.Bytes()
	read, err := scopecount.Parse(text)
	testkit.Must(t, err)
	if a, _ := read.Admit(now, storage.Place{Token: storage.NewToken()}, time.Second, limit); a.Reached != storage.ReachedInFlight {
		t.Errorf("Admit of the read count returned %+v", a)
	}
	testkit.Equal(t, read.End(), now+time.Minute.Microseconds(), "the end of the count")
	wholes := 0
	for size := range text {
		if _, err := scopecount.Parse(text[:size]); err == nil {
			wholes++
		} else if !errors.Is(err, storage.ErrCorruptRecord) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	testkit.Equal(t, wholes, 3, "beginnings that are counts")
}

// A window of a clock that was set back by a day does not last for a day.
func TestCountOfAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	limit := storage.ScopeLimit{NewKeys: 1, Window: time.Minute}
	var count scopecount.Count
	day := 24 * time.Hour.Microseconds()
	count.Admit(2*day, storage.Place{Token: storage.NewToken()}, time.Second, limit)
	if a, _ := count.Admit(day, storage.Place{Token: storage.NewToken()}, time.Second, limit); a.Reached != 0 {
		t.Errorf("a day earlier Admit returned %+v", a)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
