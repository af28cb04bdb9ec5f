package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func TestEveryOptionSetsItsField(t *testing.T) {
	t.Parallel()
	got, err := policy.New(
		policy.TTLHours(48), policy.RememberHours(720), policy.LockTTL(time.Minute), policy.Required(false),
		policy.ExcludeFields("clientTimestamp", "meta.nonce"), policy.Methods("PUT"),
		policy.OnStoreError(policy.FailOpen), policy.Wait(2*time.Second),
		policy.OnAbandoned(policy.Refuse), policy.MaxRun(time.Hour),
		policy.MaxRequestBytes(10), policy.MaxResponseBytes(20),
		policy.StoreTimeout(time.Second), policy.KeepHeaders("Set-Cookie"),
	)
	testkit.Must(t, err)
	if p, err := policy.New(policy.Remember(90 * time.Minute)); err != nil || p.Remember != 90*time.Minute {
		t.Errorf("Remember is %v, %v", p.Remember, err)
	}
	if p, err := policy.New(policy.KeyAge(24*time.Hour - 5*time.Minute)); err != nil || p.KeyAge != 24*time.Hour-policy.KeyClockTolerance {
		t.Errorf("KeyAge is %v, %v", p.KeyAge, err)
	}
	if p, err := policy.New(policy.KeyAge(time.Minute), policy.TTL(time.Second), policy.LockTTL(time.Second), policy.Remember(6*time.Minute)); err != nil || p.KeyAge != time.Minute {
		t.Errorf("KeyAge is %v, %v", p.KeyAge, err)
	}
	want := policy.Policy{
		TTL: 48 * time.Hour, Remember: 720 * time.Hour, LockTTL: time.Minute, Required: false,
		ExcludeFields: []string{"clientTimestamp", "meta.nonce"}, Methods: []string{"PUT"},
		OnStoreError: policy.FailOpen, Wait: 2 * time.Second,
		OnAbandoned: policy.Refuse, MaxRun: time.Hour,
		MaxRequestBytes: 10, MaxResponseBytes: 20,
		StoreTimeout: time.Second, KeepHeaders: []string{"Set-Cookie"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !got.Guards("PUT") || got.Guards("POST") {
		t.Error("Guards does not follow Methods")
	}
}

func TestOptionsCopyTheirLists(t *testing.T) {
	t.Parallel()
	fields := []string{"nonce"}
	opt := policy.ExcludeFields(fields...)
	fields[0] = "amount"
	p, err := policy.New(opt)
	testkit.Must(t, err)
	testkit.Equal(t, p.ExcludeFields[0], "nonce", "a later change of the caller's slice reached the policy")
}

func TestFromStartsFromAWholePolicy(t *testing.T) {
	t.Parallel()
	parsed, err := policy.Parse("TTLHours=48 Required=false")
	testkit.Must(t, err)
	got, err := policy.New(policy.From(parsed), policy.Required(true))
	testkit.Must(t, err)
	if got.TTL != 48*time.Hour || !got.Required {
		t.Errorf("got %+v", got)
	}
}

func TestInvalidValuesAreRefusedWithFieldAndValue(t *testing.T) {
	t.Parallel()
	type row struct {
		opt  policy.Option
		want string
	}
	testkit.Each(t, map[string]row{
		"zero TTL":              {policy.TTL(0), "policy: TTL is 0s: it must be from 1ms to 87600h0m0s (ten years)"},
		"negative TTL":          {policy.TTLHours(-1), "policy: TTL is -1h0m0s: it must be from 1ms"},
		"TTL wraps round":       {policy.TTLHours(math.MaxInt), "it must be from 1ms to 87600h0m0s"},
		"TTL wraps round below": {policy.TTLHours(math.MinInt), "it must be from 1ms to 87600h0m0s"},
		"zero LockTTL":          {policy.LockTTL(0), "policy: LockTTL is 0s: it must be at least 1ms"},
		"negative Remember":     {policy.RememberHours(-1), "policy: Remember is -1h0m0s: it must be zero, or at least 1ms"},
		"Remember too long":     {policy.Remember(87599 * time.Hour), "policy: Remember is 87599h0m0s: it must be at most 87600h0m0s (ten years) with TTL, which is 24h0m0s"},
		"Remember wraps round":  {policy.RememberHours(math.MaxInt), "it must be at most 87600h0m0s (ten years) with TTL"},
		"Remember without TTL":  {func(p *policy.Policy) { p.TTL, p.Remember = 0, time.Hour }, "policy: TTL is 0s: it must be from 1ms"},
		"short KeyAge":          {policy.KeyAge(59 * time.Second), "policy: KeyAge is 59s: it must be zero, or at least 1m0s"},
		"negative KeyAge":       {policy.KeyAge(-time.Hour), "policy: KeyAge is -1h0m0s: it must be zero, or at least 1m0s"},
		"KeyAge over TTL": {
			policy.KeyAge(24*time.Hour - 5*time.Minute + 1),
			"policy: KeyAge is 23h55m0.000000001s: it must be at most 23h55m0s, which is TTL with Remember less 5m0s for clocks that are ahead",
		},
		"KeyAge over Remember": {
			func(p *policy.Policy) { p.Remember, p.KeyAge = time.Hour, 25*time.Hour },
			"policy: KeyAge is 25h0m0s: it must be at most 24h55m0s, which is TTL with Remember",
		},
		"LockTTL over TTL":     {policy.LockTTL(25 * time.Hour), "policy: LockTTL is 25h0m0s: it must be at most TTL, which is 24h0m0s"},
		"negative Wait":        {policy.Wait(-1), "policy: Wait is -1ns: it must be zero, or at least 1ms"},
		"zero MaxRun":          {policy.MaxRun(0), "policy: MaxRun is 0s: it must be at least 1ms"},
		"zero StoreTimeout":    {policy.StoreTimeout(0), "policy: StoreTimeout is 0s: it must be at least 1ms"},
		"zero MaxRequestBytes": {policy.MaxRequestBytes(0), "policy: MaxRequestBytes is 0: it must be more than zero"},
		"MaxResponseBytes":     {policy.MaxResponseBytes(-5), "policy: MaxResponseBytes is -5: it must be more than zero"},
		"OnStoreError":         {policy.OnStoreError(7), "policy: OnStoreError is 7: it must be FailClosed or FailOpen"},
		"fail-open transaction": {
			func(p *policy.Policy) { p.Transactional, p.OnStoreError = true, policy.FailOpen },
			"policy: OnStoreError is FailOpen: it must be FailClosed when Transactional is true",
		},
		"no methods":          {policy.Methods(), `policy: Methods is "": it must be at least one method`},
		"a star for methods":  {policy.Methods("*"), `policy: Methods is "*": it must be a method in capital letters, such as POST`},
		"lower-case method":   {policy.Methods("post"), `policy: Methods is "post": it must be a method in capital letters, such as POST`},
		"empty exclude name":  {policy.ExcludeFields("nonce", ""), `policy: ExcludeFields is "": it must be a member's name or path, such as meta.nonce`},
		"blank key field":     {policy.KeyField(" "), `policy: KeyField is " ": it must be a member's name or path, such as request_id`},
		"blank exclude name":  {policy.ExcludeFields(" "), `policy: ExcludeFields is " "`},
		"blank redacted name": {policy.RedactFields(""), `policy: RedactFields is "": it must be a member's name or path, such as client_secret`},
		"exact bytes without a field": {
			func(p *policy.Policy) { p.ExactBytes, p.ExcludeFields = true, []string{"nonce"} },
			"policy: ExactBytes is true: it must be left out beside ExcludeFields and IncludeFields",
		},
		"exact bytes of some fields": {
			func(p *policy.Policy) { p.ExactBytes, p.IncludeFields = true, []string{"amount"} },
			"policy: ExactBytes is true: it must be left out beside ExcludeFields and IncludeFields",
		},
		"blank include name": {policy.IncludeFields(""), `policy: IncludeFields is "": it must be a member's name or path, such as amount`},
		"both field lists": {
			func(p *policy.Policy) { p.IncludeFields, p.ExcludeFields = []string{"amount", "to"}, []string{"nonce"} },
			`policy: IncludeFields is "amount,to": it must be left out beside ExcludeFields`,
		},
		"include header":            {policy.IncludeHeaders("X Api"), `policy: IncludeHeaders is "X Api": it must be a header name, such as X-Api-Version`},
		"hop-by-hop include header": {policy.IncludeHeaders("te"), `policy: IncludeHeaders is "te": it must be an end-to-end header`},
		"Host as include header":    {policy.IncludeHeaders("host"), `policy: IncludeHeaders is "host": it must be another header: core.ScopeByHost`},
		"header name":               {policy.KeepHeaders("Set Cookie"), `policy: KeepHeaders is "Set Cookie": it must be a header name, such as Set-Cookie`},
		// Numbers without a unit, which Go reads as nanoseconds.
		"Remember":     {policy.Remember(720), "policy: Remember is 720ns: it must be zero, or at least 1ms"},
		"Wait":         {policy.Wait(5), "policy: Wait is 5ns: it must be zero, or at least 1ms"},
		"MaxRun":       {policy.MaxRun(15), "policy: MaxRun is 15ns: it must be at least 1ms"},
		"StoreTimeout": {policy.StoreTimeout(500), "policy: StoreTimeout is 500ns: it must be at least 1ms"},
		// Case 65: names that can only be mistakes.
		"a line in a field":      {policy.ExcludeFields("a\nb"), `policy: ExcludeFields is "a\nb": it must be`},
		"a zero in a field":      {policy.ExcludeFields("fine", "a\x00"), `policy: ExcludeFields is "a\x00": it must be`},
		"a field, not UTF-8":     {policy.ExcludeFields("a\xff"), `policy: ExcludeFields is "a\xff": it must be`},
		"a space before a field": {policy.ExcludeFields(" a"), `policy: ExcludeFields is " a": it must be`},
		"a tab behind a path":    {policy.ExcludeFields("meta.id\t"), `policy: ExcludeFields is "meta.id\t": it must be`},
		"two names in one":       {policy.RedactFields("client_secret,cvc"), `policy: RedactFields is "client_secret,cvc": it must be`},
		"lines in a header":      {policy.KeepHeaders("Set-Cookie\r\nX"), `policy: KeepHeaders is "Set-Cookie\r\nX": it must be`},
		"no header":              {policy.KeepHeaders(""), `policy: KeepHeaders is "": it must be`},
		"a line in a method":     {policy.Methods("POST\n"), `policy: Methods is "POST\n": it must be`},
		"hop-by-hop header":      {policy.KeepHeaders("transfer-encoding"), `policy: KeepHeaders is "transfer-encoding": it must be an end-to-end header`},
	}, func(t *testing.T, c row) {
		_, err := policy.New(c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Fatalf("got  %v\nwant %s", err, c.want)
		}
		var field *policy.FieldError
		if !errors.As(err, &field) || field.Field == "" {
			t.Errorf("no FieldError in %#v", err)
		}
	})
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := policy.Parse("\tTTLHours=48 LockTTL=60s  Required=false\nExcludeFields=clientTimestamp,requestNonce OnAbandoned=Refuse ")
	testkit.Must(t, err)
	want, err := policy.New(
		policy.TTLHours(48), policy.LockTTL(time.Minute), policy.Required(false),
		policy.ExcludeFields("clientTimestamp", "requestNonce"), policy.OnAbandoned(policy.Refuse),
	)
	testkit.Must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseReportsFaults(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"TtlHours=48":           `policy: unknown name "TtlHours": did you mean TTLHours?`,
		"Color=red":             `policy: unknown name "Color": the names are TTLHours, RememberHours,`,
		"TTLHours":              `policy: "TTLHours" is not a setting: write TTLHours=value`,
		"TTLHours=two":          `policy: TTLHours is "two": it must be a whole number of hours`,
		"LockTTL=60":            `policy: LockTTL is "60": it must be a duration such as 60s`,
		"Required=maybe":        `policy: Required is "maybe": it must be true or false`,
		"OnStoreError=open":     `policy: OnStoreError is "open": it must be FailClosed or FailOpen`,
		"OnAbandoned=Recover":   `policy: OnAbandoned is "Recover": it must be Reexecute or Refuse`,
		"MaxRequestBytes=1MiB":  `policy: MaxRequestBytes is "1MiB": it must be a whole number of bytes`,
		"Wait=1s Wait=2s":       `policy: Wait is given twice`,
		"TTL=1h":                `policy: unknown name "TTL": did you mean TTLHours?`,
		"RememberHours=1.5":     `policy: RememberHours is "1.5": it must be a whole number of hours`,
		"Remember=90m":          `policy: unknown name "Remember": did you mean RememberHours?`,
		"KeyAge=23":             `policy: KeyAge is "23": it must be a duration such as 23h`,
		"TTLHours=1 KeyAge=1h":  `policy: KeyAge is 1h0m0s: it must be at most 55m0s, which is TTL with Remember less 5m0s`,
		"RememberHours=-1":      `policy: RememberHours is "-1": it must be a whole number of hours, from 0 to 87600 (ten years)`,
		"TTLHours=0":            `policy: TTLHours is "0": it must be a whole number of hours, from 1 to 87600 (ten years)`,
		"TTLHours=87601":        `policy: TTLHours is "87601": it must be a whole number of hours, from 1 to 87600 (ten years)`,
		"ExcludeFields=a,,b":    `policy: ExcludeFields is "": it must be a member's name`,
		`RedactFields="a"`:      `policy: RedactFields is "\"a\"": it must be a member's name`,
		"KeyField=aKeep=5xx":    `policy: KeyField is "aKeep=5xx": it must be a member's name`, // a space is missing
		"TTLHours=1 LockTTL=2h": `policy: LockTTL is 2h0m0s: it must be at most TTL, which is 1h0m0s`,
		"MaxRun=x Methods=get":  `policy: Methods is "get"`,
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := policy.Parse(text)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("TTLHours=48 LockTTL=60s ExcludeFields=a,b")
	f.Add("TTLHours=9223372036854775807")
	f.Add("= == a=")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := policy.Parse(text)
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Errorf("Parse(%q) let through: %v", text, err)
		}
	})
}

func TestModes(t *testing.T) {
	t.Parallel()
	find := func(context.Context, policy.Abandoned) (*policy.Response, error) { return nil, nil } //nolint:nilnil // nil, nil means here: no side effect happened
	recovering := policy.Recover(find)
	names := fmt.Sprint(policy.FailClosed, policy.FailOpen, policy.Reexecute, policy.Refuse, recovering)
	testkit.Equal(t, names, "FailClosed FailOpen Reexecute Refuse Recover", "the modes")
	if !policy.Refuse.Refuses() || policy.Reexecute.Refuses() || recovering.Refuses() {
		t.Error("Refuses is wrong")
	}
	if recovering.RecoverFunc() == nil || policy.Refuse.RecoverFunc() != nil {
		t.Error("RecoverFunc is wrong")
	}
}

func TestClassifierIsNotCalledAfterThePointOfNoReturn(t *testing.T) {
	t.Parallel()
	p, err := policy.New(policy.Classifier(func(failure.Outcome) failure.Class { return failure.ClassRetryable }))
	testkit.Must(t, err)
	if got := p.Classify(failure.Outcome{Status: 201}); got != failure.ClassRetryable {
		t.Errorf("the classifier was not called: %v", got)
	}
	if got := p.Classify(failure.Outcome{Status: 500, Executed: true}); got != failure.ClassCache {
		t.Errorf("an executed run was classified %v", got)
	}
	confused, _ := policy.New(policy.Classifier(func(failure.Outcome) failure.Class { return failure.ClassUncertain + 1 }))
	if got := confused.Classify(failure.Outcome{Status: 201}); got != failure.ClassCache {
		t.Errorf("a class that does not exist was returned as %v", got)
	}
	standard, _ := policy.New()
	testkit.Equal(t, standard.Classify(failure.Outcome{Status: 503}), failure.ClassDeleteKey, "without a classifier")
}

func ExampleParse() {
	p, err := policy.Parse("TTLHours=48 LockTTL=60s ExcludeFields=clientTimestamp,requestNonce")
	fmt.Println(p.TTL, p.LockTTL, p.ExcludeFields, err)

	_, err = policy.Parse("TTLHours=1 LockTTL=2h")
	fmt.Println(err)
	// Output:
	// 48h0m0s 1m0s [clientTimestamp requestNonce] <nil>
	// policy: LockTTL is 2h0m0s: it must be at most TTL, which is 1h0m0s
}
