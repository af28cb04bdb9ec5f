package pgstore

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// origin encodes an origin. It is null for no origin.
func origin(o storage.Origin) pgtype.Text {
	return pgtype.Text{String: records.OriginText(o), Valid: o != storage.Origin{}}
}
