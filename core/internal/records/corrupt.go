package records

import (
	"fmt"

	"github.com/oncekey/oncekey/core/storage"
)

// Corrupt returns a [storage.ErrCorruptRecord] with its reason, such as "its status is 7".
func Corrupt(format string, details ...any) error {
	return fmt.Errorf("%w: %s", storage.ErrCorruptRecord, fmt.Sprintf(format, details...))
}

// Excerpt quotes the beginning of a string, which may be long and may hold any bytes.
func Excerpt(s string) string {
	const enough = 80
	if len(s) > enough {
		return fmt.Sprintf("%q...", s[:enough])
	}
	return fmt.Sprintf("%q", s)
}
