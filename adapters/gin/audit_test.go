package idemgin

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/adapters/gin/internal/routes"
	"github.com/oncekey/oncekey/adapters/internal/declared"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func newGuard(t *testing.T) *Guard {
	t.Helper()
	engine, err := core.New(memstore.New(), core.SharedScope)
	testkit.Must(t, err)
	return New(engine)
}

// If gin's tree has an unknown shape, Audit reports that, and does not report rows that
// it cannot check.
func TestAuditOfAnUnknownGin(t *testing.T) {
	t.Parallel()
	guard := newGuard(t)
	table, err := policy.NewTable(policy.Row("POST /b"), policy.Row("POST /lost"))
	testkit.Must(t, err)
	chains := []routes.Chain{
		{Method: "POST", Pattern: "/a", Handlers: gin.HandlersChain{guard.Handle(func(*gin.Context) {})}},
		{Method: "POST", Pattern: "/b", Handlers: gin.HandlersChain{func(*gin.Context) {}}},
	}
	report := audit(chains, false, guard, []*policy.Table{table})
	if len(report.Warnings) != 2 || !strings.HasPrefix(report.Warnings[0], "POST /b is not guarded") || !strings.HasPrefix(report.Warnings[1], "this version of gin is unknown") {
		t.Errorf("warnings are %q", report.Warnings)
	}
	if len(report.Errors) != 1 || !strings.Contains(fmt.Sprint(report.Err()), "POST /lost matches no route") {
		t.Errorf("errors are %v", report.Err())
	}
}

// In debug mode gin prints every route once.
//
//nolint:paralleltest // gin's mode and writer are global
func TestMountPrintsRoutesOnce(t *testing.T) {
	mode, writer := gin.Mode(), gin.DefaultWriter
	t.Cleanup(func() {
		gin.SetMode(mode)
		gin.DefaultWriter = writer
	})
	var printed bytes.Buffer
	gin.DefaultWriter = &printed
	gin.SetMode(gin.DebugMode)
	r := gin.New()
	r.GET("/before", func(*gin.Context) {})
	type API struct {
		Pay gin.HandlerFunc `route:"POST /payments" idempotency:""`
	}
	testkit.Must(t, Mount(r, newGuard(t), API{func(*gin.Context) {}}))
	for _, pattern := range []string{"/before", "/payments"} {
		if times := strings.Count(printed.String(), pattern); times != 1 {
			t.Errorf("%s is printed %d times:\n%s", pattern, times, &printed)
		}
	}
	testkit.Equal(t, gin.Mode(), gin.DebugMode, "the mode in which gin is left")
}

// Case 69: a time-out package outside a policy is an error, and a function with such a
// name a warning. A guarded handler is safe behind both.
func TestAuditOfTimeouts(t *testing.T) {
	t.Parallel()
	idem, handler := newGuard(t), func(*gin.Context) {}
	middleware, decorated := idem.guarded((*gin.Context).Next, idem.engine.MustRoute()), idem.guarded(handler, idem.engine.MustRoute())
	middleware.isMiddleware = true
	for _, row := range []struct {
		name             string
		cover            *guarded
		errors, warnings int
	}{
		{"github.com/gin-contrib/timeout.New.func1", middleware, 1, 0},
		{"github.com/vearne/gin-timeout.Timeout.func1", middleware, 1, 0},
		{"example.com/shop/web.RequestTimeout.func1", middleware, 0, 1},
		{"github.com/gin-contrib/timeout.New.func1", decorated, 0, 0},
	} {
		var report policy.Report
		limited(&report, []string{row.name}, row.cover, declared.Key{Method: "POST", Pattern: "/a"})
		if len(report.Errors) != row.errors || len(report.Warnings) != row.warnings {
			t.Errorf("%s: got %+v", row.name, report)
		}
	}
}
