package policy_test

import (
	"fmt"

	"github.com/oncekey/oncekey/policy"
)

// A retry on Monday of Friday's payment does not pay again.
func ExampleRememberHours() {
	p, err := policy.New(policy.TTLHours(24), policy.RememberHours(720))
	fmt.Println(p.TTL, p.Remember, err)

	p, err = policy.Parse("TTLHours=24 RememberHours=720") // in a struct's tag
	fmt.Println(p.TTL, p.Remember, err)

	_, err = policy.Parse("TTLHours=24 RememberHours=-1")
	fmt.Println(err)
	// Output:
	// 24h0m0s 720h0m0s <nil>
	// 24h0m0s 720h0m0s <nil>
	// policy: RememberHours is "-1": it must be a whole number of hours, from 0 to 87600 (ten years)
}
