package program_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

var announced = regexp.MustCompile(`^operators at (http://\S+) with any name and the password (\S+)$`)

// The program prints where operators find a payment, on both routers.
func TestInspector(t *testing.T) {
	t.Parallel()
	for _, router := range routers {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, "-router", router, "-inspect")
			found := p.AwaitLine(announced)
			send(t, p.url, pay("order-42", "tok_ok", 201))

			for password, want := range map[string]int{found[2]: http.StatusOK, "guessed": http.StatusUnauthorized} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, found[1]+"find", strings.NewReader("key=order-42&scope=alice&target=POST+/payments"))
				testkit.Must(t, err)
				r.SetBasicAuth("m.ortiz", password)
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Accept", "application/json")
				response, err := http.DefaultClient.Do(r)
				testkit.Must(t, err)
				text, _ := io.ReadAll(response.Body)
				response.Body.Close()
				isRecord := strings.Contains(string(text), `"state":"completed"`) && strings.Contains(string(text), `"text":"TTLHours=48`)
				isChallenge := response.Header.Get("Www-Authenticate") == `Basic realm="inspector"`
				if response.StatusCode != want || isRecord != (want == http.StatusOK) || isChallenge == isRecord {
					t.Errorf("with the password %q: %d %v %s", password, response.StatusCode, response.Header, text)
				}
			}
		})
	}
}
