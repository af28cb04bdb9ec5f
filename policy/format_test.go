package policy_test

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// Every setting is in this text, with another value than the default.
const everySetting = "TTLHours=48 RememberHours=720 LockTTL=1m Required=false KeyField=id KeyFormat=UUID KeyAge=23h0m " +
	"ExcludeFields=sentAt,nonce IncludeHeaders=X-Version Methods=POST,PUT OnStoreError=FailOpen Wait=2s " +
	"OnAbandoned=Refuse Observe=true MaxRun=20m MaxRequestBytes=10 MaxResponseBytes=20 StoreTimeout=1.5s " +
	"Release=422 Keep=503 Uncertain=504 RedactFields=secret KeepHeaders=Date"

func TestStringIsParsedAgain(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", everySetting, "IncludeFields=amount Transactional=true", "ExactBytes=true"} {
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
	if got, want := p.String(), "TTL=1h30m KeyFormat=[a-z]+ Classifier=func"; got != want {
		t.Errorf("the policy's text is %q, want %q", got, want)
	}
}
