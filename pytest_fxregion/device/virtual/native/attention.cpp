#include "device.h"
namespace fxregion { void install_attention() {} }
