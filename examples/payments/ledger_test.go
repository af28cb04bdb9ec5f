package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestEmptyLedgerHasEmptyLists(t *testing.T) {
	t.Parallel()
	_, body := send(t, newServer(t, "chi"), step{method: "GET", path: "/ledger"})
	if strings.Contains(body, "null") || strings.Count(body, "[]") != 4 {
		t.Errorf("got %s, want four empty lists", body)
	}
}

func TestLedgerSaysWhoPaidForWhat(t *testing.T) {
	t.Parallel()
	for router := range routers {
		url := newServer(t, router)
		send(t, url, pay("key-1", "tok_ok", 201).as("bob"))
		send(t, url, join("key-2", "ada@example.com", 201))
		send(t, url, change("", "mem_1", "eva@example.com", 200))
		got := readLedger(t, url)
		charge, created, changed := got.Charges[0], got.Members[0], got.Members[1]
		if charge.Time.IsZero() || !strings.HasPrefix(charge.ID, "pay_") || len(charge.ID) != 12 {
			t.Errorf("%s: the charge is %+v, want an id and a time", router, charge)
		}
		charge.Time, created.Time, changed.Time = entry{}.Time, entry{}.Time, entry{}.Time
		charge.ID = ""
		if want := (entry{OrderID: "order-1", Amount: 4200, Currency: "EUR", User: "bob", Key: "key-1", Attempt: 1}); charge != want {
			t.Errorf("%s: the charge is %+v, want %+v", router, charge, want)
		}
		if want := (entry{ID: "mem_1", Email: "ada@example.com", User: "alice", Key: "key-2", Attempt: 1}); created != want {
			t.Errorf("%s: the member is %+v, want %+v", router, created, want)
		}
		if want := (entry{ID: "mem_1", Email: "eva@example.com", User: "alice"}); changed != want {
			t.Errorf("%s: the change without a key is %+v, want %+v", router, changed, want)
		}
	}
}

// Processes that share the file do not mix their lines.
func TestLedgersShareOneFile(t *testing.T) {
	t.Parallel()
	const writers, each = 4, 100
	path := filepath.Join(t.TempDir(), "ledger")
	var group sync.WaitGroup
	for range writers {
		lines, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		books := newMemoryLedger(lines)
		group.Go(func() {
			defer lines.Close()
			for i := range each {
				if _, _, err := books.add(t.Context(), charges, entry{OrderID: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(written) != writers*each {
		t.Errorf("%d lines, want %d", len(written), writers*each)
	}
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

// A side effect without a ledger line has not happened, and releases its key.
func TestLedgerThatCannotBeWrittenIsNoCharge(t *testing.T) {
	t.Parallel()
	for router := range routers {
		lines, err := openJournal(filepath.Join(t.TempDir(), "ledger"))
		if err != nil {
			t.Fatal(err)
		}
		url := serveBooks(t, router, newMemoryLedger(lines))
		lines.Close()
		for range 2 {
			if response, body := send(t, url, pay("k", "tok_ok", 500)); response.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "something broke") {
				t.Errorf("%s: got %d %q, want 500", router, response.StatusCode, body)
			}
		}
		if got, want := readLedger(t, url).counts(), (counts{attempts: 2}); got != want {
			t.Errorf("%s: the ledger has %+v, want %+v", router, got, want)
		}
	}
}
