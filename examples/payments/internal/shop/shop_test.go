package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Processes that share the file do not mix their lines.
func TestLedgersShareOneFile(t *testing.T) {
	t.Parallel()
	const writers, each = 4, 100
	path := filepath.Join(t.TempDir(), "ledger")
	var group sync.WaitGroup
	for range writers {
		lines, err := OpenJournal(path)
		testkit.Must(t, err)
		books := NewMemoryLedger(lines)
		group.Go(func() {
			defer lines.Close()
			for i := range each {
				if _, _, err := books.Add(t.Context(), Charges, Entry{OrderID: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	written := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	testkit.Equal(t, len(written), writers*each, "lines")
	for _, line := range written {
		var got struct {
			Kind    string `json:"kind"`
			PID     int    `json:"pid"`
			OrderID string `json:"order_id"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Kind != "charge" || got.PID != os.Getpid() || got.OrderID == "" {
			t.Errorf("line %q is read as %+v (%v)", line, got, err)
		}
	}
}

// A side effect without a line has not happened, and may be tried again.
func TestLedgerThatCannotBeWrittenIsNoCharge(t *testing.T) {
	t.Parallel()
	lines, err := OpenJournal(filepath.Join(t.TempDir(), "ledger"))
	testkit.Must(t, err)
	books := NewMemoryLedger(lines)
	lines.Close()
	for range 2 {
		if _, added, err := books.Add(t.Context(), Charges, Entry{OrderID: "o-1"}); added || err == nil {
			t.Errorf("added is %t and the error %v, want an error", added, err)
		}
	}
	if entries, err := books.All(t.Context()); err != nil || len(entries[Charges]) > 0 {
		t.Errorf("the ledger has %v, %v, want no charge", entries, err)
	}
}

func slowCard(t *testing.T) (c Card) {
	t.Helper()
	testkit.Must(t, c.UnmarshalText([]byte("tok_slow:10m")))
	return c
}

func TestSlowestCardIsCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := slowCard(t).Authorize(t.Context()); err != nil || time.Since(begin) != SlowestCard {
			t.Errorf("Authorize returned %v after %v, want nil after %v", err, time.Since(begin), SlowestCard)
		}
	})
}

// A cancelled handler leaves the response to the engine.
func TestSlowCardIsCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err, w := slowCard(t).Authorize(ctx), httptest.NewRecorder()
		if WriteError(w, err); !errors.Is(err, errCutShort) || w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("Authorize returned %v, and WriteError wrote %v %q, want no response", err, w.Header(), w.Body)
		}
	})
}
