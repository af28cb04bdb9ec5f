package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

var announced = regexp.MustCompile(`^operators at (http://\S+) with any name and the password (\S+)\n$`)

// The program prints where operators find a payment, on both routers.
func TestInspector(t *testing.T) {
	t.Parallel()
	for router := range routers {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
			stdout, output := io.Pipe()
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, []string{"-router", router, "-addr", "127.0.0.1:0", "-inspect"}, output, new(bytes.Buffer))
			}()
			defer func() { stop(); <-ended }()
			lines := bufio.NewReader(stdout)
			first, _ := lines.ReadString('\n')
			second, _ := lines.ReadString('\n')
			found := announced.FindStringSubmatch(second)
			if found == nil {
				t.Fatalf("the program prints %q", first+second)
			}
			send(t, strings.TrimSpace(strings.TrimPrefix(first, "listening on ")), pay("order-42", "tok_ok", 201))

			for password, want := range map[string]int{found[2]: http.StatusOK, "guessed": http.StatusUnauthorized} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, found[1]+"find", strings.NewReader("key=order-42&scope=alice&target=POST+/payments"))
				if err != nil {
					t.Fatal(err)
				}
				r.SetBasicAuth("m.ortiz", password)
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Accept", "application/json")
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
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
