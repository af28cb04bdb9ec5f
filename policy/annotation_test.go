package policy_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func handle(http.ResponseWriter, *http.Request) {}

// annotations reads an API whose handlers are net/http's.
func annotations(api any, also ...policy.Addition) ([]policy.Annotated[http.HandlerFunc], error) {
	return policy.Annotations[http.HandlerFunc](api, also...)
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	type API struct {
		Pay    http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48 LockTTL=60s ExcludeFields=clientTimestamp,requestNonce"`
		Update http.HandlerFunc `route:"PATCH  /members/{id}" idempotency:"Required=false"`
		Refund http.HandlerFunc `json:"-" route:"POST /refunds" idempotency:""`
		List   http.HandlerFunc `route:"GET /members"`
		Later  http.HandlerFunc `route:"-"`
		Name   string
	}
	got, err := annotations(API{Pay: handle, Update: handle, Refund: handle, List: handle})
	testkit.Must(t, err)
	type seen struct {
		source, route string
		guarded       bool
	}
	var all []seen
	for _, a := range got {
		all = append(all, seen{a.Source, a.Route(), a.Guarded})
		if a.Handler == nil {
			t.Errorf("%s has lost its handler", a.Source)
		}
	}
	want := []seen{
		{"API.Pay", "POST /payments", true},
		{"API.Update", "PATCH /members/{id}", true},
		{"API.Refund", "POST /refunds", true},
		{"API.List", "GET /members", false},
	}
	if !slices.Equal(all, want) {
		t.Fatalf("got  %+v\nwant %+v", all, want)
	}
	pay := got[0].Policy
	if pay.TTL != 48*time.Hour || pay.LockTTL != time.Minute || !slices.Equal(pay.ExcludeFields, []string{"clientTimestamp", "requestNonce"}) {
		t.Errorf("Pay has %+v", pay)
	}
	if got[1].Policy.Required || !got[2].Policy.Required {
		t.Error("Required differs from the tags")
	}
	if !reflect.DeepEqual(got[3].Policy, policy.Policy{}) {
		t.Errorf("a route without a policy has %+v", got[3].Policy)
	}
}

// The policy guards the route's own method by default.
func TestDeclarationGuardsItsOwnMethod(t *testing.T) {
	t.Parallel()
	type API struct {
		Put    http.HandlerFunc `route:"PUT /a" idempotency:""`
		Delete http.HandlerFunc `route:"DELETE /a" idempotency:"TTLHours=1"`
		Both   http.HandlerFunc `route:"POST /a" idempotency:"Methods=POST,PUT"`
	}
	declared, err := policy.Declarations(API{})
	testkit.Must(t, err)
	for i, want := range [][]string{{"PUT"}, {"DELETE"}, {"POST", "PUT"}} {
		testkit.EqualSlices(t, declared[i].Policy.Methods, want, "%s guards", declared[i].Route())
	}
}

// base is embedded: the type is unexported, its fields are exported.
type base struct {
	Health http.HandlerFunc `route:"GET /health"`
}

// tree has itself as a member, and no routes.
type tree struct{ Left, Right *tree }

type members struct {
	Join http.HandlerFunc `route:"POST /members" idempotency:""`
}

func TestNestedStructsAreWalked(t *testing.T) {
	t.Parallel()
	type Members struct {
		Update http.HandlerFunc `route:"PATCH /members/{id}" idempotency:""`
	}
	type API struct {
		base
		*members
		Members Members
		Admin   *struct {
			Ban http.HandlerFunc `route:"POST /bans" idempotency:""`
		}
		Server *http.Server // something else, with handlers of its own
		Self   *struct{ Server http.Server }
		Tree   *tree
		health http.HandlerFunc // not for a router
	}
	api := &API{base: base{handle}, members: &members{handle}, Members: Members{handle}, Server: &http.Server{}, health: handle}
	api.Admin = &struct {
		Ban http.HandlerFunc `route:"POST /bans" idempotency:""`
	}{handle}
	got, err := annotations(api, policy.Also("Members.Update", policy.TTLHours(7)))
	testkit.Must(t, err)
	var sources []string
	for _, a := range got {
		sources = append(sources, a.Source)
	}
	testkit.EqualSlices(t, sources, []string{"API.base.Health", "API.members.Join", "API.Members.Update", "API.Admin.Ban"}, "the sources")
	testkit.Equal(t, got[2].Policy.TTL, 7*time.Hour, "the addition to a nested field is lost")
}

type recursive struct {
	Pay  http.HandlerFunc `route:"POST /payments"`
	Next *recursive
}

func TestWalkOfARecursiveStructEnds(t *testing.T) {
	t.Parallel()
	api := &recursive{Pay: handle}
	api.Next = api
	if got, err := annotations(api); err != nil || len(got) != 1 {
		t.Errorf("got %d routes, %v", len(got), err)
	}
}

func TestAlsoAddsOptionsThatTagsCannotHold(t *testing.T) {
	t.Parallel()
	type API struct {
		Pay http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48"`
	}
	never := func(failure.Outcome) failure.Class { return failure.ClassRetryable }
	got, err := annotations(API{handle}, policy.Also("Pay", policy.Classifier(never)), policy.Also("Pay", policy.LockTTL(time.Minute)))
	testkit.Must(t, err)
	if p := got[0].Policy; p.Classifier == nil || p.TTL != 48*time.Hour || p.LockTTL != time.Minute {
		t.Errorf("got %+v", p)
	}
}

// Documentation needs no handlers and no router.
func TestDeclarationsNeedNoHandlers(t *testing.T) {
	t.Parallel()
	type API struct {
		Pay  func(string) `route:"POST /payments" idempotency:""`
		Wrap string       `route:"POST /wrapped"`
	}
	got, err := policy.Declarations(API{})
	if len(got) != 1 || got[0].Route() != "POST /payments" || !got[0].Guarded {
		t.Errorf("got %+v", got)
	}
	if want := "it must be a handler function"; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzAnnotations(f *testing.F) {
	f.Add(`route:"POST /a" idempotency:"TTLHours=48"`)
	f.Add(`route:"POST /a" idempotency:TTLHours`)
	f.Add(`route: "`)
	f.Fuzz(func(t *testing.T, tag string) {
		declared, err := policy.Declarations(tagged(tag))
		if err == nil && len(declared) == 0 && !strings.Contains(tag, `route:"-"`) {
			t.Errorf("%q declares no route and gives no error", tag)
		}
		for _, d := range declared {
			if !strings.HasPrefix(d.Pattern, "/") || d.Guarded && !d.Policy.Guards(d.Method) {
				t.Errorf("%q is let through as %+v", tag, d)
			}
		}
	})
}

func ExampleAnnotations() {
	type API struct {
		Pay  http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48 LockTTL=60s"`
		List http.HandlerFunc `route:"GET /payments"`
	}
	routes, err := policy.Annotations[http.HandlerFunc](API{Pay: handle, List: handle})
	for _, route := range routes {
		fmt.Println(route.Source, route.Route(), route.Guarded, route.Policy.TTL)
	}
	fmt.Println(err)
	// Output:
	// API.Pay POST /payments true 48h0m0s
	// API.List GET /payments false 0s
	// <nil>
}

func ExampleAlso() {
	type API struct {
		Pay http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48"`
	}
	keepAll := func(failure.Outcome) failure.Class { return failure.ClassCache }
	routes, err := policy.Annotations[http.HandlerFunc](API{Pay: handle}, policy.Also("Pay", policy.Classifier(keepAll)))
	fmt.Println(routes[0].Policy.TTL, routes[0].Policy.Classifier != nil, err)
	// Output:
	// 48h0m0s true <nil>
}

func ExampleDeclarations() {
	type API struct {
		Pay http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48"`
	}
	declared, err := policy.Declarations(API{})
	fmt.Println(declared[0].Route(), declared[0].Policy.TTL, err)
	// Output:
	// POST /payments 48h0m0s <nil>
}
