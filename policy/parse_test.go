package policy_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func TestStringIsParsedAgain(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "TTLHours=48 LockTTL=1m Required=false StoreTimeout=1.5s Keep=503,5xx", "RememberHours=720 Methods=POST,PUT"} {
		parsed, err := policy.Parse(text)
		testkit.Must(t, err)
		testkit.Equal(t, parsed.String(), text, "the policy's text")
	}
}

func TestStringNamesOptions(t *testing.T) {
	t.Parallel()
	find := func(context.Context, policy.Abandoned) (*policy.Response, error) { return nil, nil }
	p, err := policy.New(policy.Classifier(failure.Classify), policy.KeyFormat(policy.KeyPattern("[a-z]+")),
		policy.TTL(90*time.Minute), policy.Remember(time.Second), policy.OnAbandoned(policy.Recover(find)))
	testkit.Must(t, err)
	testkit.Equal(t, p.String(), "TTL=1h30m Remember=1s KeyFormat=[a-z]+ OnAbandoned=Recover Classifier=func", "the policy's text")
}
