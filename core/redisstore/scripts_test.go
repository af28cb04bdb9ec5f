package redisstore_test

import (
	"os"
	"os/exec"
	"testing"
)

// Redis names a script by SHA-1: a program that Go holds to the algorithms of FIPS 140-3 must not end for it.
func TestStrictFIPS(t *testing.T) {
	t.Parallel()
	program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRoundTrips$")
	program.Env = append(os.Environ(), "GODEBUG=fips140=only")
	if output, err := program.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
