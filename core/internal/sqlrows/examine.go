package sqlrows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/storage"
)

// Check is a setting of the database, and the judgement of its values.
type Check struct {
	Name, Query string
	// Judge returns the value as a finding shows it, its grade, and an advice unless it is good.
	Judge func(value string) (seen string, grade storage.Grade, advice string)
}

// Wants accepts some values, and grades any other.
func Wants(grade storage.Grade, advice string, good ...string) func(string) (string, storage.Grade, string) {
	return func(value string) (string, storage.Grade, string) {
		if slices.Contains(good, value) {
			return value, storage.Good, ""
		}
		return value, grade, advice
	}
}

// MayRefuse judges the names of constraints and triggers.
var MayRefuse = Wants(storage.Look, "remove those that may refuse a response: it is not kept then, and its retries get not_replayable", "none")

var errNoRow = errors.New("the query returned no row")

// Examine makes a check. A check that fails is skipped.
func (c *Check) Examine(ctx context.Context, on Session, table string) storage.Finding {
	value, err := "", errNoRow
	query := InTable(table, c.Query)
	if failed := on.Each(ctx, query, func(scan func(into ...any) error) error {
		err = scan(&value)
		return err
	}); failed != nil {
		err = failed
	}
	if err != nil {
		return examination.Skipped(c.Name, err.Error(), "check by hand: "+strings.Join(strings.Fields(query), " "))
	}
	seen, grade, advice := c.Judge(value)
	return storage.Finding{Check: c.Name, Grade: grade, Seen: seen, Advice: advice}
}

// ExamineVersion compares the version of the table with this program's.
func (s *Records) ExamineVersion(ctx context.Context, on Session, check string, want int) storage.Finding {
	version, err := Version(ctx, on, s.Table)
	seen := fmt.Sprintf("version %d, this program has %d", version, want)
	switch {
	case err != nil: // the store needs no right to the table of the versions
		return examination.Skipped(check, err.Error(), InTable(s.Table, "let this role read {table}_migrations, or run "+s.Package+".Migrate"))
	case version < want:
		return examination.Mend(check, seen, "run "+s.Package+".Migrate before the programs of this version")
	default:
		return examination.Good(check, seen)
	}
}

// ExamineSweeping counts the rows that a sweeper would have removed.
func (s *Records) ExamineSweeping(ctx context.Context, check string) storage.Finding {
	overdue, err := s.Overdue(ctx, SweepBatch)
	switch {
	case err != nil:
		return examination.Skipped(check, err.Error(), "see the first finding")
	case len(overdue) == SweepBatch:
		return examination.Look(check, fmt.Sprintf("at least %d expired records", SweepBatch),
			"run RunSweeper in each instance, or Sweep from a scheduler: the table grows")
	default:
		return examination.Good(check, fmt.Sprintf("%d expired records", len(overdue)))
	}
}

// verdict is a grade and its advice.
type verdict struct {
	grade  storage.Grade
	advice string
}

// verdicts judges values that begin with a digit and a space: 0 is good, and each other digit
// is the number of a verdict. SQL decides, because it has the numbers.
func verdicts(all ...verdict) func(string) (string, storage.Grade, string) {
	return func(value string) (string, storage.Grade, string) {
		digit, seen, _ := strings.Cut(value, " ")
		var number int
		if _, err := fmt.Sscan(digit, &number); err != nil || number < 0 || number > len(all) {
			return value, storage.Skipped, "check by hand"
		}
		if number == 0 {
			return seen, storage.Good, ""
		}
		return seen, all[number-1].grade, all[number-1].advice
	}
}
