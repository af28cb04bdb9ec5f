package main

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/handlertest"
	"github.com/oncekey/oncekey/examples/payments/internal/shop"
	"github.com/oncekey/oncekey/internal/testkit"
)

// ledgerInWorld is the ledger with the faults of a run.
type ledgerInWorld struct {
	shop.Ledger
	world *handlertest.World
}

func (l ledgerInWorld) Add(ctx context.Context, b shop.Book, e shop.Entry) (in shop.Entry, added bool, err error) {
	err = l.world.Call(ctx, "ledger: "+string(b), func(ctx context.Context) (err error) {
		in, added, err = l.Ledger.Add(ctx, b, e)
		return err
	})
	return in, added, err
}

// Payments and refunds are safe to retry, on both routers, and docs/testing.md shows the
// matrix of the payments.
func TestMoneyIsSafeToRetry(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/testing.md")
	testkit.Must(t, err)
	_, rest, _ := strings.Cut(string(page), "The payments of `examples/payments`")
	_, rest, _ = strings.Cut(rest, "```text\n")
	matrix, _, _ := strings.Cut(rest, "```\n")
	for router, build := range routers {
		for path, b := range map[string]shop.Book{"/payments": shop.Charges, "/refunds": shop.Refunds} {
			report := handlertest.Examine(t, func(w *handlertest.World) handlertest.Service {
				books := shop.NewMemoryLedger(&shop.Journal{})
				return handlertest.Service{
					Routes: func(engine *core.Engine) http.Handler {
						return build(service{shop.New(ledgerInWorld{books, w}, nil)}, engine, times{30 * time.Second, 500 * time.Millisecond})
					},
					Request: handlertest.Request{
						Path: path, Body: `{"order_id":"42","amount":100,"currency":"EUR","card":"tok_ok"}`,
						Header: http.Header{"Authorization": {"Bearer alice"}},
					},
					Effects: func() int {
						entries, _ := books.All(w.Context()) // a ledger in memory never fails
						return len(entries[b])
					},
					Scope: shop.UserOf,
				}
			})
			if err := report.Err(); err != nil {
				t.Errorf("%s on %s: %v\n%s", path, router, err, report)
			}
			if b == shop.Charges && !testkit.Shown(matrix).MatchString(report.String()) {
				t.Errorf("docs/testing.md does not show, of %s,\n%s", router, report)
			}
		}
	}
}
