package policy_test

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

func TestStringIsParsedAgain(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "TTLHours=48 LockTTL=1m Required=false StoreTimeout=1.5s Keep=503,5xx", "RememberHours=720 Methods=POST,PUT"} {
		parsed, err := policy.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.String(); got != text {
			t.Errorf("the policy's text is\n%q, want\n%q", got, text)
		}
	}
}

func TestStringNamesFunctions(t *testing.T) {
	t.Parallel()
	p, err := policy.New(policy.Classifier(failure.Classify), policy.KeyFormat(policy.KeyPattern("[a-z]+")), policy.TTL(90*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.String(), "TTLHours=1h30m KeyFormat=[a-z]+ Classifier=func"; got != want {
		t.Errorf("the policy's text is %q, want %q", got, want)
	}
}
