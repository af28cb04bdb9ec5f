package policy_test

import (
	"fmt"
	"time"

	"github.com/oncekey/oncekey/policy"
)

// A retry of last year's payment does not pay again, and no record of it is left.
func ExampleKeyAge() {
	p, err := policy.New(policy.TTLHours(24), policy.KeyAge(23*time.Hour))
	fmt.Println(p.TTL, p.KeyAge, err)

	_, err = policy.Parse("TTLHours=24 KeyAge=59s")
	fmt.Println(err)
	// Output:
	// 24h0m0s 23h0m0s <nil>
	// policy: KeyAge is 59s: it must be zero, or at least 1m0s
}
