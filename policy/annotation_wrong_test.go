package policy_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func TestAnnotationsThatAreWrong(t *testing.T) {
	t.Parallel()
	type nested struct {
		Hidden http.HandlerFunc `route:"POST /hidden"`
	}
	type inner struct {
		Typo http.HandlerFunc `Route:"POST /typo"`
	}
	type row struct {
		api  any
		also []policy.Addition
		want string
	}
	testkit.Each(t, map[string]row{
		"no struct":             {api: 7, want: "policy: int has no annotations: give a struct, or a pointer to one"},
		"nil":                   {api: nil, want: "policy: <nil> has no annotations"},
		"no routes":             {api: struct{ Name string }{}, want: `has no routes: add route:"METHOD /path" to its handlers`},
		"nil API":               {api: (*recursive)(nil), want: `policy: recursive.Pay: route:"POST /payments": the handler is nil`},
		"nil group":             {api: struct{ Pay *recursive }{}, want: `policy: Pay.Pay: route:"POST /payments": the handler is nil`},
		"hidden group":          {api: struct{ Group struct{ hidden nested } }{}, want: `policy: Group.hidden: it holds routes and is not exported: begin its name with a capital letter`},
		"misspelled tag":        {api: struct{ Group inner }{inner{handle}}, want: `policy: Group.Typo: the tag Route is unknown: did you mean route?`},
		"idempotence":           {api: tagged(`route:"POST /a" idempotence:"TTLHours=48"`), want: `policy: Pay: the tag idempotence is unknown: did you mean idempotency?`},
		"tag twice":             {api: tagged(`route:"POST /a" idempotency:"TTLHours=48" idempotency:"LockTTL=60s"`), want: `policy: Pay: the tag idempotency is given twice: once is enough`},
		"tag after a comma":     {api: tagged(`route:"POST /a",idempotency:"TTLHours=48"`), want: `policy: Pay: the tag ,idempotency is unknown: did you mean idempotency?`},
		"tag without quotes":    {api: tagged(`route:POST /a`), want: "policy: Pay: the tag `route:POST /a` cannot be parsed"},
		"policy without quotes": {api: tagged(`route:"POST /a" idempotency:TTLHours=48`), want: "cannot be parsed: write name:\"value\" pairs separated by spaces"},
		"untagged": {api: struct {
			Pay  http.HandlerFunc `route:"POST /a"`
			Lost func(http.ResponseWriter, *http.Request)
		}{handle, handle}, want: `policy: Lost: a handler without a route: add route:"METHOD /path", or route:"-" to leave it out`},
		"policy without a route": {api: tagged(`idempotency:""`), want: `policy: Pay: idempotency:"" without a route`},
		"not exported": {api: struct {
			pay http.HandlerFunc `route:"POST /a"`
		}{handle}, want: `policy: pay: route:"POST /a" on a field that is not exported: begin its name with a capital letter`},
		"another type": {api: struct {
			Pay func(string) `route:"POST /a"`
		}{}, want: `policy: Pay: route:"POST /a" on a field of type func(string): it must be http.HandlerFunc`},
		"a struct": {api: struct {
			Pay recursive `route:"POST /a"`
		}{}, want: `on a field of type policy_test.recursive: it must be http.HandlerFunc`},
		"nil handler": {api: struct {
			Pay http.HandlerFunc `route:"POST /a"`
		}{}, want: `policy: Pay: route:"POST /a": the handler is nil`},
		"no method":          {api: tagged(`route:"/a"`), want: `policy: Pay: route:"/a": "/a" is not a route: begin with a method in capital letters, as in "POST /payments"`},
		"a star for methods": {api: tagged(`route:"* /a"`), want: `"* /a" is not a route: begin with a method`},
		"lower-case method":  {api: tagged(`route:"post /a"`), want: `"post /a" is not a route: begin with a method`},
		"no slash":           {api: tagged(`route:"POST payments"`), want: `"POST payments" is not a route: the pattern must begin with a slash, as in "POST /payments"`},
		"no pattern":         {api: tagged(`route:"POST"`), want: `"POST" is not a route: the pattern must begin with a slash`},
		"on GET":             {api: tagged(`route:"GET /a" idempotency:""`), want: `policy: Pay: idempotency:"": a policy on GET, which is safe to repeat as it is: declare policies on POST, PATCH, PUT or DELETE`},
		"unknown option":     {api: tagged(`route:"POST /a" idempotency:"TtlHours=48"`), want: `policy: Pay: idempotency:"TtlHours=48": policy: unknown name "TtlHours": did you mean TTLHours?`},
		"other methods":      {api: tagged(`route:"POST /a" idempotency:"Methods=PUT,PATCH"`), want: `Methods is "PUT,PATCH": it must be left out, or name the route's own method, POST`},
		"twice": {api: struct {
			A http.HandlerFunc `route:"POST /a"`
			B http.HandlerFunc `route:"POST  /a"`
		}{handle, handle}, want: `policy: B: POST /a is declared by A already`},
		"Also to nothing": {
			api:  recursive{Pay: handle},
			also: []policy.Addition{policy.Also("Pai", policy.TTLHours(1))},
			want: `policy: Also is given "Pai": name a field that has a route`,
		},
		"Also to an unguarded route": {
			api:  recursive{Pay: handle},
			also: []policy.Addition{policy.Also("Pay", policy.TTLHours(1))},
			want: `policy: recursive.Pay: Also: the field has no policy to add to: add idempotency:""`,
		},
		"Also with nonsense": {
			api:  tagged(`route:"POST /a" idempotency:"TTLHours=1"`),
			also: []policy.Addition{policy.Also("Pay", policy.LockTTL(2*time.Hour))},
			want: `policy: Pay: idempotency:"TTLHours=1": policy: LockTTL is 2h0m0s: it must be at most TTL, which is 1h0m0s`,
		},
	}, func(t *testing.T, c row) {
		_, err := annotations(c.api, c.also...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
		if lines := strings.Split(fmt.Sprint(err), "\n"); len(lines) > 2 {
			t.Errorf("one slip is reported as %q", lines)
		}
	})
}

func TestAnnotationsReportEverythingAtOnce(t *testing.T) {
	t.Parallel()
	type API struct {
		Pay  http.HandlerFunc `route:"POST payments" idempotency:"Color=red Wait=-1s"`
		List http.HandlerFunc `route:"GET /list" idempotency:""`
		Gone http.HandlerFunc `route:"POST /gone"`
		Fine http.HandlerFunc `route:"POST /fine" idempotency:"TTLHours=3"`
	}
	got, err := annotations(API{Pay: handle, List: handle, Fine: handle})
	for _, want := range []string{
		`policy: API.Pay: route:"POST payments"`,
		`policy: API.Pay: idempotency:"Color=red Wait=-1s": policy: unknown name "Color"`,
		`policy: API.Pay: idempotency:"Color=red Wait=-1s": policy: Wait is -1s`,
		`policy: API.List: idempotency:""`,
		`policy: API.Gone: route:"POST /gone": the handler is nil`,
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s is not reported in\n%v", want, err)
		}
	}
	for line := range strings.SplitSeq(fmt.Sprint(err), "\n") {
		if !strings.HasPrefix(line, "policy: API.") {
			t.Errorf("a line without a place: %s", line)
		}
	}
	if len(got) != 1 || got[0].Source != "API.Fine" {
		t.Errorf("got the routes %+v", got)
	}
	if field, found := errors.AsType[*policy.FieldError](err); !found || field.Field != "Wait" {
		t.Errorf("got the field error %v", field)
	}
}

// tagged is an API with one handler and a tag that go vet would not let pass.
func tagged(tag string) any {
	api := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: "Pay", Type: reflect.TypeFor[http.HandlerFunc](), Tag: reflect.StructTag(tag),
	}}))
	api.Elem().Field(0).Set(reflect.ValueOf(http.HandlerFunc(handle)))
	return api.Interface()
}
