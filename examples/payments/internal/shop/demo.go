package shop

import "fmt"

// pay is a payment of an amount, as a command.
const pay = `curl -i %s/payments -H 'Authorization: Bearer alice' -H 'Idempotency-Key: k1' \
    --json '{"order_id":"o-1","amount":%d,"currency":"EUR","card":"tok_ok"}'
`

// Demonstration has the commands that show the guard at work, for a service at the address. README's transcript has the same.
func Demonstration(address string) string {
	return fmt.Sprintf(`
Pay, and send the same again: the retry gets the first response.

%s
Change the amount under the same key: 422.

%s`, fmt.Sprintf(pay, address, 4200), fmt.Sprintf(pay, address, 9900))
}
