package pgstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// Classes and codes with which the server refuses a row for good: data that no column
// takes, a constraint, a limit of the program, and a trigger's exception.
var (
	refusedClasses = []string{"22", "23", "44", "54"}
	refusedCodes   = []string{"P0001"}
	// refusedTexts are of the limit of 1 GB, of the server and of pgx.
	refusedTexts = []string{"invalid memory alloc request size", "message body too large"}
)

// unlessRefused marks the error of a write of a record that the server refuses for good.
func unlessRefused(err error) error {
	if err == nil {
		return nil
	}
	code := codeOf(err)
	refused := slices.Contains(refusedClasses, code[:min(2, len(code))]) || slices.Contains(refusedCodes, code) ||
		slices.ContainsFunc(refusedTexts, func(text string) bool { return strings.Contains(err.Error(), text) })
	if refused {
		return fmt.Errorf("%w: %w", storage.ErrNotStorable, err)
	}
	return err
}
