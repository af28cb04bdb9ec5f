package soak

import (
	"log/slog"
	"testing"

	"github.com/oncekey/oncekey/core/internal/system/service"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	service.Main(m)
}
