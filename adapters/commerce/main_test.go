package commerce_test

import (
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // debug mode prints every route
	goleak.VerifyTestMain(m)
}
