#include "op.h"

#include <exception>
#include <new>

namespace assay {

const OrtApi* api;

namespace {

// Failure carries a status out of a kernel.
struct Failure {
  OrtStatus* status;
};

// guarded turns exceptions of f into a status.
template <class F>
OrtStatus* guarded(const char* name, F f) noexcept {
  const auto failed = [name](const std::string& why) {
    return api->CreateStatus(ORT_INVALID_ARGUMENT, (std::string("assay.") + name + ": " + why).c_str());
  };
  try {
    f();
    return nullptr;
  } catch (const Failure& e) {
    return e.status;
  } catch (const std::string& e) {
    return failed(e);
  } catch (const std::bad_alloc&) {
    return failed("out of memory");
  } catch (const std::exception& e) {
    return failed(e.what());
  }
}

// Node is an operator with the kernel of one node.
struct Node {
  const Op* op;
  Kernel* kernel;
  Kept kept;
};

const Op* self(const OrtCustomOp* op) { return static_cast<const Op*>(op); }

OrtCustomOpInputOutputCharacteristic characteristic(const Argument& a) {
  return a.optional ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
}

}  // namespace

void check(OrtStatus* status) {
  if (status != nullptr) throw Failure{status};
}

int64_t Attributes::integer(const char* name, int64_t fallback) const {
  int64_t v;
  if (OrtStatus* missing = api->KernelInfoGetAttribute_int64(info_, name, &v)) {
    api->ReleaseStatus(missing);
    return fallback;
  }
  return v;
}

float Attributes::number(const char* name, float fallback) const {
  float v;
  if (OrtStatus* missing = api->KernelInfoGetAttribute_float(info_, name, &v)) {
    api->ReleaseStatus(missing);
    return fallback;
  }
  return v;
}

const void* Context::raw(size_t i, size_t rank, std::vector<int64_t>* shape) const {
  const OrtValue* v = nullptr;
  size_t n = 0;
  check(api->KernelContext_GetInputCount(c_, &n));
  if (i < n) check(api->KernelContext_GetInput(c_, i, &v));
  if (v == nullptr) return nullptr;
  OrtTensorTypeAndShapeInfo* info;
  check(api->GetTensorTypeAndShape(v, &info));
  OrtStatus* status = api->GetDimensionsCount(info, &n);
  if (status == nullptr) {
    shape->resize(n);
    status = api->GetDimensions(info, shape->data(), n);
  }
  api->ReleaseTensorTypeAndShapeInfo(info);
  check(status);
  want(rank == kAnyRank || n == rank, "input " + std::to_string(i) + " has rank " + std::to_string(n) + ", want " + std::to_string(rank));
  void* data;
  check(api->GetTensorMutableData(const_cast<OrtValue*>(v), &data));
  static const char empty = 0;  // so that a tensor without elements is not null
  return data != nullptr ? data : &empty;
}

void* Context::make(size_t i, const std::vector<int64_t>& shape) const {
  OrtValue* v = nullptr;
  void* data = nullptr;
  check(api->KernelContext_GetOutput(c_, i, shape.data(), shape.size(), &v));
  if (v != nullptr) check(api->GetTensorMutableData(v, &data));
  return data;
}

void* Context::stream() const {
  void* stream = nullptr;
  check(api->KernelContext_GetGPUComputeStream(c_, &stream));
  return stream;
}

void Context::each(int64_t n, const std::function<void(int64_t)>& f) const {
  if (n == 0) return;
  const auto call = [](void* f, size_t i) {
    (*static_cast<const std::function<void(int64_t)>*>(f))(static_cast<int64_t>(i));
  };
  check(api->KernelContext_ParallelFor(c_, call, static_cast<size_t>(n), 0,
                                       const_cast<std::function<void(int64_t)>*>(&f)));
}

Op::Op(const char* name, std::vector<Argument> inputs, std::vector<Argument> outputs,
       Kernel* (*make)(const Attributes&), const char* provider)
    : OrtCustomOp{},
      name(name),
      inputs(std::move(inputs)),
      outputs(std::move(outputs)),
      make(make),
      provider(provider) {
  version = ORT_API_VERSION;
  GetName = [](const OrtCustomOp* op) { return self(op)->name; };
  GetExecutionProviderType = [](const OrtCustomOp* op) { return self(op)->provider; };
  GetInputTypeCount = [](const OrtCustomOp* op) { return self(op)->inputs.size(); };
  GetInputType = [](const OrtCustomOp* op, size_t i) { return self(op)->inputs[i].type; };
  GetInputCharacteristic = [](const OrtCustomOp* op, size_t i) { return characteristic(self(op)->inputs[i]); };
  GetInputMemoryType = [](const OrtCustomOp* op, size_t i) {
    return self(op)->inputs[i].host ? OrtMemTypeCPUInput : OrtMemTypeDefault;
  };
  GetOutputTypeCount = [](const OrtCustomOp* op) { return self(op)->outputs.size(); };
  GetOutputType = [](const OrtCustomOp* op, size_t i) { return self(op)->outputs[i].type; };
  GetOutputCharacteristic = [](const OrtCustomOp* op, size_t i) { return characteristic(self(op)->outputs[i]); };
  GetVariadicInputMinArity = GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 1; };
  GetVariadicOutputMinArity = GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 1; };
  GetStartVersion = [](const OrtCustomOp*) { return 1; };
  GetEndVersion = [](const OrtCustomOp*) { return 1; };
  CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi*, const OrtKernelInfo* info, void** kernel) {
    return guarded(self(op)->name, [&] { *kernel = new Node{self(op), self(op)->make(Attributes(info)), {}}; });
  };
  KernelComputeV2 = [](void* kernel, OrtKernelContext* c) {
    Node* n = static_cast<Node*>(kernel);
    return guarded(n->op->name, [&] { n->kernel->run(Context(c, n->kept)); });
  };
  KernelDestroy = [](void* kernel) {
    Node* n = static_cast<Node*>(kernel);
    delete n->kernel;
    delete n;
  };
}

}  // namespace assay

// RegisterCustomOps is the entry point that ONNX Runtime looks up in the library.
extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
                                                                               const OrtApiBase* base) {
  if ((assay::api = base->GetApi(ORT_API_VERSION)) == nullptr) {
    const std::string want = std::to_string(ORT_API_VERSION), have = base->GetVersionString();
    return base->GetApi(1)->CreateStatus(
        ORT_NOT_IMPLEMENTED, ("libassay_ops.so needs ONNX Runtime 1." + want + " or newer, not " + have).c_str());
  }
  static OrtCustomOpDomain* domain = nullptr;  // one for all sessions, for the lifetime of the process
  static OrtStatus* failed = [] {
    OrtStatus* status = assay::api->CreateCustomOpDomain("assay", &domain);
    for (auto* ops : {&assay::attention_ops(), &assay::row_ops(), &assay::cuda_ops()}) {
      for (assay::Op& op : *ops) {
        if (status == nullptr) status = assay::api->CustomOpDomain_Add(domain, &op);
      }
    }
    return status;
  }();
  if (failed != nullptr) {
    return assay::api->CreateStatus(assay::api->GetErrorCode(failed), assay::api->GetErrorMessage(failed));
  }
  return assay::api->AddCustomOpDomain(options, domain);
}
