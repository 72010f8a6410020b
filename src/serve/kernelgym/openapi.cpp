#include "serve/kernelgym/adapter.h"

namespace lathe::serve::kernelgym {

const char* const kOpenApiAdditions = R"json({
 "paths": {
  "/evaluate": {
   "post": {
    "operationId": "kernelGymEvaluate",
    "summary": "Waits for a verdict on one kernel.",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymRequest"}}}
    },
    "responses": {
     "200": {
      "description": "What is known of the kernel.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymEvaluation"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "413": {"$ref": "#/components/responses/BodyTooLarge"},
     "415": {"$ref": "#/components/responses/NotJson"},
     "429": {"$ref": "#/components/responses/KernelGymFull"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  },
  "/evaluate/batch": {
   "post": {
    "operationId": "kernelGymEvaluateBatch",
    "summary": "Waits for the verdicts on up to 100 kernels, each of which ends by itself.",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymBatch"}}}
    },
    "responses": {
     "200": {
      "description": "An answer for each.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymBatchAnswer"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "413": {"$ref": "#/components/responses/BodyTooLarge"},
     "415": {"$ref": "#/components/responses/NotJson"},
     "429": {"$ref": "#/components/responses/KernelGymFull"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  },
  "/workflow/submit": {
   "post": {
    "operationId": "kernelGymSubmitWorkflow",
    "summary": "The same as /evaluate, of a payload.",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymWorkflowRequest"}}}
    },
    "responses": {
     "200": {
      "description": "What is known of the kernel.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymWorkflow"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "413": {"$ref": "#/components/responses/BodyTooLarge"},
     "415": {"$ref": "#/components/responses/NotJson"},
     "429": {"$ref": "#/components/responses/KernelGymFull"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  },
  "/debug/validate": {
   "post": {
    "operationId": "kernelGymValidate",
    "summary": "Whether a request would be taken, and why not.",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymAnything"}}}
    },
    "responses": {
     "200": {
      "description": "The errors.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymValidation"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "413": {"$ref": "#/components/responses/BodyTooLarge"},
     "415": {"$ref": "#/components/responses/NotJson"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  },
  "/status/{task_id}": {
   "get": {
    "operationId": "kernelGymStatus",
    "summary": "The state of the last evaluation with that task_id.",
    "parameters": [{"name": "task_id", "in": "path", "required": true, "schema": {"type": "string"}}],
    "responses": {
     "200": {
      "description": "Its state.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymStatus"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {"$ref": "#/components/responses/KernelGymNotFound"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  },
  "/results/{task_id}": {
   "get": {
    "operationId": "kernelGymResults",
    "summary": "The answer to the last evaluation with that task_id; 404 while there is none.",
    "parameters": [{"name": "task_id", "in": "path", "required": true, "schema": {"type": "string"}}],
    "responses": {
     "200": {
      "description": "What is known of the kernel.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymEvaluation"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {"$ref": "#/components/responses/KernelGymNotFound"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  },
  "/workflow/results/{task_id}": {
   "get": {
    "operationId": "kernelGymWorkflowResults",
    "summary": "The same, as /workflow/submit has it.",
    "parameters": [{"name": "task_id", "in": "path", "required": true, "schema": {"type": "string"}}],
    "responses": {
     "200": {
      "description": "What is known of the kernel.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymWorkflow"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {"$ref": "#/components/responses/KernelGymNotFound"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  },
  "/tasks/{task_id}": {
   "delete": {
    "operationId": "kernelGymCancel",
    "summary": "Cancels; 404 once it has ended.",
    "parameters": [{"name": "task_id", "in": "path", "required": true, "schema": {"type": "string"}}],
    "responses": {
     "200": {
      "description": "It is cancelled.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymMessage"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {"$ref": "#/components/responses/KernelGymNotFound"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  },
  "/health": {
   "get": {
    "operationId": "kernelGymHealth",
    "summary": "Whether a worker is there and the store takes writes, and what is under way.",
    "responses": {
     "200": {
      "description": "It can evaluate.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymHealth"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnhealthy"}
    }
   }
  },
  "/queue/status": {
   "get": {
    "operationId": "kernelGymQueue",
    "summary": "How many evaluations wait, run and have ended.",
    "responses": {
     "200": {
      "description": "The numbers.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymQueue"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  },
  "/workers/status": {
   "get": {
    "operationId": "kernelGymWorkers",
    "summary": "The workers of this front end, by name.",
    "responses": {
     "200": {
      "description": "What each does.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymWorkers"}}}
     },
     "400": {"$ref": "#/components/responses/KernelGymInvalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/KernelGymBroken"},
     "503": {"$ref": "#/components/responses/KernelGymUnavailable"}
    }
   }
  }
 },
 "components": {
  "responses": {
   "KernelGymInvalid": {
    "description": "The request is wrong, or a field of it cannot be honoured; the message says which and why.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymError"}}}
   },
   "KernelGymNotFound": {
    "description": "There is no such task, or not in that state.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymError"}}}
   },
   "KernelGymFull": {
    "description": "The queue, or the client's share of it, is full: the message says which.",
    "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KernelGymError"}}}
   },
   "KernelGymBroken": {
    "description": "A fault of the service.",
    "content": {"application/json": {"schema": {"anyOf": [{"$ref": "#/components/schemas/KernelGymError"}, {"$ref": "#/components/schemas/Fault"}]}}}
   },
   "KernelGymUnavailable": {
    "description": "The machine failed three times, or the service cannot do that now: send it again.",
    "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
    "content": {"application/json": {"schema": {"anyOf": [{"$ref": "#/components/schemas/KernelGymError"}, {"$ref": "#/components/schemas/Fault"}]}}}
   },
   "KernelGymUnhealthy": {
    "description": "There is no worker, or the store takes no writes.",
    "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
    "content": {"application/json": {"schema": {"anyOf": [{"$ref": "#/components/schemas/KernelGymHealth"}, {"$ref": "#/components/schemas/KernelGymError"}, {"$ref": "#/components/schemas/Fault"}]}}}
   }
  },
  "schemas": {
   "KernelGymRequest": {
    "type": "object",
    "additionalProperties": false,
    "required": ["task_id", "reference_code", "kernel_code"],
    "properties": {
     "task_id": {"type": "string", "minLength": 1, "maxLength": 100},
     "reference_code": {"type": "string", "maxLength": 100000},
     "kernel_code": {"type": "string", "maxLength": 100000},
     "entry_point": {"type": "string", "default": "Model"},
     "backend": {"description": "Triton, cuda or pytorch on a GPU, cpu on a processor.", "enum": ["triton", "cuda", "pytorch", "cpu", null]},
     "workflow": {"enum": ["kernelbench", null]},
     "toolkit": {"enum": ["kernelbench", null]},
     "backend_adapter": {"enum": ["kernelbench", null]},
     "num_correct_trials": {"type": ["integer", "null"], "minimum": 1, "maximum": 20, "default": 5},
     "num_perf_trials": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000, "default": 100},
     "num_warmup": {"type": ["integer", "null"], "minimum": 0, "maximum": 100, "default": 3},
     "timeout": {"type": ["integer", "null"], "description": "Seconds.", "minimum": 10, "maximum": 3600, "default": 300},
     "priority": {"enum": ["low", "normal", "high", null], "default": "normal"},
     "run_correctness": {"enum": [true, null]},
     "run_performance": {"type": ["boolean", "null"]},
     "measure_performance": {"type": ["boolean", "null"]},
     "verbose_errors": {"type": ["boolean", "null"], "default": true},
     "enable_profiling": {"type": ["boolean", "null"], "description": "True on a GPU alone."},
     "run_triton_detection": {"type": ["boolean", "null"], "description": "True on a GPU alone."},
     "enable_triton_detection": {"type": ["boolean", "null"], "description": "True on a GPU alone."},
     "detect_decoy_kernel": {"type": ["boolean", "null"]},
     "force_refresh": {"type": ["boolean", "null"]},
     "reference_backend": {"enum": ["pytorch", null]},
     "use_reference_cache": {"type": ["boolean", "null"]},
     "uuid": {"type": ["string", "null"]},
     "is_valid": {"type": ["boolean", "null"]},
     "device_preference": {"type": ["string", "null"]},
     "cases": {"description": "Empty.", "type": ["array", "null"], "maxItems": 0},
     "cases_code": {"description": "Empty.", "type": ["string", "null"], "maxLength": 0},
     "resources": {"description": "Empty.", "type": ["object", "null"], "maxProperties": 0}
    }
   },
   "KernelGymAnything": {"description": "What is to be judged: a KernelGymRequest where it is right.", "type": "object"},
   "KernelGymBatch": {
    "type": "object",
    "additionalProperties": false,
    "required": ["batch_id", "tasks"],
    "properties": {
     "batch_id": {"type": "string"},
     "tasks": {"type": "array", "minItems": 1, "maxItems": 100, "items": {"$ref": "#/components/schemas/KernelGymRequest"}}
    }
   },
   "KernelGymWorkflowRequest": {
    "description": "A KernelGymRequest, whose fields may be in the payload.",
    "type": "object",
    "required": ["task_id"],
    "properties": {"task_id": {"type": "string"}, "payload": {"type": "object"}}
   },
   "KernelGymState": {"enum": ["pending", "processing", "completed", "failed", "timeout"]},
   "KernelGymEvaluation": {
    "type": "object",
    "required": ["task_id", "status", "compiled", "correctness", "decoy_kernel", "reference_runtime", "kernel_runtime", "speedup", "metadata", "error_message", "error_code", "submitted_at", "completed_at", "processing_time"],
    "properties": {
     "task_id": {"type": "string"},
     "status": {"$ref": "#/components/schemas/KernelGymState"},
     "compiled": {"type": ["boolean", "null"]},
     "correctness": {"type": ["boolean", "null"]},
     "decoy_kernel": {"type": ["boolean", "null"]},
     "reference_runtime": {"type": ["number", "null"], "description": "Milliseconds."},
     "kernel_runtime": {"type": ["number", "null"], "description": "Milliseconds."},
     "speedup": {"type": ["number", "null"]},
     "metadata": {"type": "object"},
     "error_message": {"type": ["string", "null"]},
     "error_code": {"type": ["string", "null"]},
     "submitted_at": {"type": ["string", "null"]},
     "completed_at": {"type": ["string", "null"]},
     "processing_time": {"type": ["number", "null"], "description": "Seconds."}
    }
   },
   "KernelGymBatchAnswer": {
    "type": "object",
    "required": ["batch_id", "total_tasks", "completed_tasks", "failed_tasks", "results", "batch_status", "submitted_at", "completed_at"],
    "properties": {
     "batch_id": {"type": "string"},
     "total_tasks": {"type": "integer"},
     "completed_tasks": {"type": "integer"},
     "failed_tasks": {"type": "integer"},
     "results": {"type": "array", "items": {"$ref": "#/components/schemas/KernelGymEvaluation"}},
     "batch_status": {"enum": ["completed"]},
     "submitted_at": {"type": "string"},
     "completed_at": {"type": "string"}
    }
   },
   "KernelGymWorkflow": {
    "type": "object",
    "required": ["task_id", "status", "result", "error_message", "error_code", "submitted_at", "completed_at"],
    "properties": {
     "task_id": {"type": "string"},
     "status": {"$ref": "#/components/schemas/KernelGymState"},
     "result": {"description": "A KernelGymEvaluation without its status.", "type": "object"},
     "error_message": {"type": ["string", "null"]},
     "error_code": {"type": ["string", "null"]},
     "submitted_at": {"type": ["string", "null"]},
     "completed_at": {"type": ["string", "null"]}
    }
   },
   "KernelGymValidation": {
    "type": "object",
    "required": ["valid", "errors", "task_id", "workflow"],
    "properties": {
     "valid": {"type": "boolean"},
     "errors": {"type": "array", "items": {"type": "string"}},
     "notes": {"type": "array", "items": {"type": "string"}},
     "task_id": {"type": "string"},
     "workflow": {"type": "string"}
    }
   },
   "KernelGymStatus": {
    "type": "object",
    "required": ["task_id", "status", "submitted_at", "completed_at", "error_message"],
    "properties": {
     "task_id": {"type": "string"},
     "status": {"$ref": "#/components/schemas/KernelGymState"},
     "progress": {"type": "null"},
     "estimated_completion": {"type": "null"},
     "queue_position": {"type": "null"},
     "assigned_device": {"type": "null"},
     "submitted_at": {"type": ["string", "null"]},
     "completed_at": {"type": ["string", "null"]},
     "error_message": {"type": ["string", "null"]}
    }
   },
   "KernelGymMessage": {
    "type": "object",
    "required": ["message", "task_id"],
    "properties": {"message": {"type": "string"}, "task_id": {"type": "string"}}
   },
   "KernelGymQueue": {
    "type": "object",
    "required": ["pending", "processing", "completed"],
    "properties": {
     "pending": {"type": "integer"},
     "processing": {"type": "integer"},
     "completed": {"type": "integer"},
     "worker_queues": {"type": "object", "additionalProperties": {"type": "integer"}}
    }
   },
   "KernelGymWorkers": {
    "type": "object",
    "additionalProperties": {
     "type": "object",
     "required": ["device", "status", "active_tasks", "busy_share"],
     "properties": {
      "device": {"type": "string"},
      "status": {"type": "string"},
      "active_tasks": {"type": "integer"},
      "busy_share": {"type": "number"}
     }
    }
   },
   "KernelGymHealth": {
    "type": "object",
    "required": ["status", "timestamp", "workers", "queue_status", "active_tasks", "total_processed", "uptime"],
    "properties": {
     "status": {"enum": ["healthy", "unhealthy"]},
     "timestamp": {"type": "string"},
     "gpu_status": {"type": "object"},
     "workers": {"$ref": "#/components/schemas/KernelGymWorkers"},
     "queue_status": {"$ref": "#/components/schemas/KernelGymQueue"},
     "memory_usage": {"type": "object"},
     "active_tasks": {"type": "integer"},
     "total_processed": {"type": "integer"},
     "uptime": {"type": "number", "description": "Seconds."}
    }
   },
   "KernelGymError": {
    "type": "object",
    "required": ["error", "message", "detail", "error_code", "task_id", "timestamp"],
    "properties": {
     "error": {"type": "string"},
     "message": {"type": "string"},
     "detail": {"type": "string"},
     "error_code": {"enum": ["VALIDATION_ERROR", "RESOURCE_ERROR", "SYSTEM_ERROR"]},
     "task_id": {"type": ["string", "null"]},
     "timestamp": {"type": "string"}
    }
   }
  }
 }
})json";

}  // namespace lathe::serve::kernelgym
