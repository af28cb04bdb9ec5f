package adapters_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

// Nonsense is refused when the route is declared, in the policy's own words.
func TestDeclarationsThatAreWrong(t *testing.T) {
	t.Parallel()
	engine, err := core.New(memstore.New(), core.SharedScope)
	if err != nil {
		t.Fatal(err)
	}
	declarations := map[string]func(...policy.Option){
		"core.Handler":   func(opts ...policy.Option) { engine.Handler(http.HandlerFunc(created), opts...) },
		"idemchi.Policy": func(opts ...policy.Option) { idemchi.New(engine).Policy(opts...) },
		"idemchi.Handle": func(opts ...policy.Option) { idemchi.New(engine).Handle(created, opts...) },
		"idemgin.Policy": func(opts ...policy.Option) { idemgin.New(engine).Policy(opts...) },
		"idemgin.Handle": func(opts ...policy.Option) { idemgin.New(engine).Handle(gin.WrapF(created), opts...) },
	}
	for name, declare := range declarations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for want, opts := range map[string][]policy.Option{
				"LockTTL is 2h0m0s: it must be at most TTL, which is 1h0m0s": {policy.TTLHours(1), policy.LockTTL(2 * time.Hour)},
				"TTL is 0s":                   {policy.TTL(0)},
				"MaxRun is -1s":               {policy.MaxRun(-time.Second)},
				`Methods is "post"`:           {policy.Methods("post")},
				`ExcludeFields is ""`:         {policy.ExcludeFields("")},
				`cannot exclude "a..b"`:       {policy.ExcludeFields("a..b")},
				`KeepHeaders is "Connection"`: {policy.KeepHeaders("Connection")},
			} {
				if said := panicOf(func() { declare(opts...) }); !strings.Contains(said, want) {
					t.Errorf("panicked with %q, want %q", said, want)
				}
			}
			if said := panicOf(func() { declare(policy.TTLHours(48)) }); said != "" {
				t.Errorf("a good policy panicked with %q", said)
			}
		})
	}
}

func panicOf(do func()) (said string) {
	defer func() {
		if value := recover(); value != nil {
			said = fmt.Sprint(value)
		}
	}()
	do()
	return ""
}
