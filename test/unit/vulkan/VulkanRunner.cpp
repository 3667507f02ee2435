#include "test/unit/vulkan/VulkanRunner.h"

#include <vulkan/vulkan.h>

#include <algorithm>
#include <cstring>

namespace g4::test {
namespace {

VKAPI_ATTR VkBool32 VKAPI_CALL collect(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                       VkDebugUtilsMessageTypeFlagsEXT,
                                       const VkDebugUtilsMessengerCallbackDataEXT *data, void *into) {
  *static_cast<std::string *>(into) += std::string(data->pMessage) + "\n";
  return VK_FALSE;
}

constexpr const char *kValidation = "VK_LAYER_KHRONOS_validation";

bool hasValidation() {
  uint32_t n = 0;
  vkEnumerateInstanceLayerProperties(&n, nullptr);
  std::vector<VkLayerProperties> layers(n);
  vkEnumerateInstanceLayerProperties(&n, layers.data());
  return std::any_of(layers.begin(), layers.end(),
                     [](auto &l) { return std::strcmp(l.layerName, kValidation) == 0; });
}

/// A Vulkan structure of zeros, but for its type and the next one.
template <typename T> T make(VkStructureType type, void *next = nullptr) {
  T result{};
  result.sType = type;
  result.pNext = next;
  return result;
}

struct Buffer {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  void *mapped = nullptr;
};

} // namespace

/// Everything that lives as long as the device. A Vulkan call that fails leaves its name in `failed`.
struct VulkanRunner::State {
  bool validation = false;
  std::string messages, failed;
  VkInstance instance = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties{};
  VkDevice device = VK_NULL_HANDLE;
  uint32_t family = 0;
  VkQueue queue = VK_NULL_HANDLE;
  VkCommandPool pool = VK_NULL_HANDLE;
  uint32_t bufferCount = 0;
  VkShaderModule module = VK_NULL_HANDLE;
  VkDescriptorSetLayout setLayout = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkDescriptorPool descriptors = VK_NULL_HANDLE;
  VkDescriptorSet set = VK_NULL_HANDLE;

  bool ok(VkResult result, const char *what) {
    if (result != VK_SUCCESS && failed.empty())
      failed = std::string(what) + " failed with code " + std::to_string(result);
    return result == VK_SUCCESS;
  }
  bool makeInstance();
  bool makeDevice();
  bool makePipeline(std::span<const uint32_t> shader, const char *entry);
  bool makeDescriptors();
  bool makeBuffer(size_t bytes, Buffer &out);
  bool execute(std::span<std::vector<std::byte> *const> data, std::span<Buffer> buffers, uint32_t groups);
  ~State();
};

bool VulkanRunner::State::makeInstance() {
  validation = hasValidation();
  auto application = make<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.apiVersion = VK_API_VERSION_1_2;
  auto info = make<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &application;
  const char *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  auto debug =
      make<VkDebugUtilsMessengerCreateInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  debug.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
  debug.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  debug.pfnUserCallback = collect;
  debug.pUserData = &messages;
  if (validation) {
    info.enabledLayerCount = info.enabledExtensionCount = 1;
    info.ppEnabledLayerNames = &kValidation;
    info.ppEnabledExtensionNames = &extension;
  }
  if (!ok(vkCreateInstance(&info, nullptr, &instance),
          "without a Vulkan driver (mesa-vulkan-drivers has one), vkCreateInstance"))
    return false;
  if (validation)
    if (auto create = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance, "vkCreateDebugUtilsMessengerEXT")))
      ok(create(instance, &debug, nullptr, &messenger), "vkCreateDebugUtilsMessengerEXT");
  return true;
}

bool VulkanRunner::State::makeDevice() {
  uint32_t n = 0;
  vkEnumeratePhysicalDevices(instance, &n, nullptr);
  std::vector<VkPhysicalDevice> devices(n);
  vkEnumeratePhysicalDevices(instance, &n, devices.data());
  if (devices.empty()) {
    failed = "no Vulkan device: is mesa-vulkan-drivers installed?";
    return false;
  }
  physical = devices[0];
  vkGetPhysicalDeviceProperties(physical, &properties);
  auto have12 = make<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  auto have11 =
      make<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &have12);
  auto have = make<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &have11);
  vkGetPhysicalDeviceFeatures2(physical, &have);
  if (!have12.storageBuffer8BitAccess || !have12.shaderInt8 || !have12.shaderFloat16 ||
      !have11.storageBuffer16BitAccess || !have.features.shaderInt16) {
    failed = std::string(properties.deviceName) + " has no 8-bit or 16-bit storage or arithmetic";
    return false;
  }
  auto want12 = make<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  want12.storageBuffer8BitAccess = want12.shaderInt8 = want12.shaderFloat16 = VK_TRUE;
  auto want11 =
      make<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &want12);
  want11.storageBuffer16BitAccess = VK_TRUE;
  auto want = make<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &want11);
  want.features.shaderInt16 = VK_TRUE;

  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  while (family < count && !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT))
    ++family;
  float priority = 1;
  auto queueInfo = make<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queueInfo.queueFamilyIndex = family;
  queueInfo.queueCount = 1;
  queueInfo.pQueuePriorities = &priority;
  auto info = make<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &want);
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queueInfo;
  if (!ok(vkCreateDevice(physical, &info, nullptr, &device), "vkCreateDevice"))
    return false;
  vkGetDeviceQueue(device, family, 0, &queue);
  auto poolInfo = make<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  poolInfo.queueFamilyIndex = family;
  return ok(vkCreateCommandPool(device, &poolInfo, nullptr, &pool), "vkCreateCommandPool");
}

bool VulkanRunner::State::makeBuffer(size_t bytes, Buffer &out) {
  auto info = make<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  if (!ok(vkCreateBuffer(device, &info, nullptr, &out.buffer), "vkCreateBuffer"))
    return false;
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device, out.buffer, &needs);
  VkPhysicalDeviceMemoryProperties kinds;
  vkGetPhysicalDeviceMemoryProperties(physical, &kinds);
  constexpr VkMemoryPropertyFlags wanted =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  auto allocation = make<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocation.allocationSize = needs.size;
  for (uint32_t t = kinds.memoryTypeCount; t-- > 0;)
    if ((needs.memoryTypeBits >> t & 1) && (kinds.memoryTypes[t].propertyFlags & wanted) == wanted)
      allocation.memoryTypeIndex = t;
  return ok(vkAllocateMemory(device, &allocation, nullptr, &out.memory), "vkAllocateMemory") &&
         ok(vkBindBufferMemory(device, out.buffer, out.memory, 0), "vkBindBufferMemory") &&
         ok(vkMapMemory(device, out.memory, 0, VK_WHOLE_SIZE, 0, &out.mapped), "vkMapMemory");
}

bool VulkanRunner::State::makePipeline(std::span<const uint32_t> shader, const char *entry) {
  auto moduleInfo = make<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  moduleInfo.codeSize = shader.size_bytes();
  moduleInfo.pCode = shader.data();
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  for (uint32_t i = 0; i < bufferCount; ++i)
    bindings.push_back({i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  auto setInfo = make<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
  setInfo.bindingCount = bufferCount;
  setInfo.pBindings = bindings.data();
  auto layoutInfo = make<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layoutInfo.setLayoutCount = 1;
  layoutInfo.pSetLayouts = &setLayout;
  if (!ok(vkCreateShaderModule(device, &moduleInfo, nullptr, &module), "vkCreateShaderModule") ||
      !ok(vkCreateDescriptorSetLayout(device, &setInfo, nullptr, &setLayout),
          "vkCreateDescriptorSetLayout") ||
      !ok(vkCreatePipelineLayout(device, &layoutInfo, nullptr, &layout), "vkCreatePipelineLayout"))
    return false;
  auto info = make<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = entry;
  info.layout = layout;
  return ok(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline),
            "vkCreateComputePipelines");
}

bool VulkanRunner::State::makeDescriptors() {
  VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, bufferCount};
  auto info = make<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
  info.maxSets = 1;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  if (!ok(vkCreateDescriptorPool(device, &info, nullptr, &descriptors), "vkCreateDescriptorPool"))
    return false;
  auto allocation = make<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
  allocation.descriptorPool = descriptors;
  allocation.descriptorSetCount = 1;
  allocation.pSetLayouts = &setLayout;
  return ok(vkAllocateDescriptorSets(device, &allocation, &set), "vkAllocateDescriptorSets");
}

bool VulkanRunner::State::execute(std::span<std::vector<std::byte> *const> data, std::span<Buffer> buffers,
                                  uint32_t groups) {
  for (size_t i = 0; i < data.size(); ++i) {
    if (!makeBuffer((data[i]->size() + 3) / 4 * 4, buffers[i]))
      return false;
    std::memcpy(buffers[i].mapped, data[i]->data(), data[i]->size());
    VkDescriptorBufferInfo info{buffers[i].buffer, 0, VK_WHOLE_SIZE};
    auto write = make<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    write.dstSet = set;
    write.dstBinding = uint32_t(i);
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = &info;
    vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);
  }
  VkCommandBuffer commands = VK_NULL_HANDLE;
  auto allocation = make<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  allocation.commandPool = pool;
  allocation.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocation.commandBufferCount = 1;
  auto begin = make<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  if (!ok(vkAllocateCommandBuffers(device, &allocation, &commands), "vkAllocateCommandBuffers") ||
      !ok(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer"))
    return false;
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
  vkCmdDispatch(commands, groups, 1, 1);
  auto barrier = make<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                       &barrier, 0, nullptr, 0, nullptr);
  auto submit = make<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  bool done = ok(vkEndCommandBuffer(commands), "vkEndCommandBuffer") &&
              ok(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit") &&
              ok(vkQueueWaitIdle(queue), "vkQueueWaitIdle");
  vkFreeCommandBuffers(device, pool, 1, &commands);
  for (size_t i = 0; done && i < data.size(); ++i)
    std::memcpy(data[i]->data(), buffers[i].mapped, data[i]->size());
  return done;
}

VulkanRunner::State::~State() {
  if (device) {
    vkDestroyDescriptorPool(device, descriptors, nullptr);
    vkDestroyPipeline(device, pipeline, nullptr);
    vkDestroyPipelineLayout(device, layout, nullptr);
    vkDestroyDescriptorSetLayout(device, setLayout, nullptr);
    vkDestroyShaderModule(device, module, nullptr);
    vkDestroyCommandPool(device, pool, nullptr);
    vkDestroyDevice(device, nullptr);
  }
  if (messenger)
    if (auto destroy = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance, "vkDestroyDebugUtilsMessengerEXT")))
      destroy(instance, messenger, nullptr);
  if (instance)
    vkDestroyInstance(instance, nullptr);
}

VulkanRunner::VulkanRunner() : state(std::make_unique<State>()) {}
VulkanRunner::~VulkanRunner() = default;
std::string VulkanRunner::deviceName() const { return state->properties.deviceName; }
bool VulkanRunner::validates() const { return state->validation; }

std::unique_ptr<VulkanRunner> VulkanRunner::create(std::span<const uint32_t> shader, const std::string &entry,
                                                   uint32_t buffers, std::string &error) {
  std::unique_ptr<VulkanRunner> runner(new VulkanRunner);
  State &s = *runner->state;
  s.bufferCount = buffers;
  bool made =
      s.makeInstance() && s.makeDevice() && s.makePipeline(shader, entry.c_str()) && s.makeDescriptors();
  if (made && s.messages.empty())
    return runner;
  error = s.failed + "\n" + s.messages;
  return nullptr;
}

std::string VulkanRunner::run(std::span<std::vector<std::byte> *const> data, uint32_t groups) {
  if (data.size() != state->bufferCount)
    return "the shader has " + std::to_string(state->bufferCount) + " buffers, not " +
           std::to_string(data.size());
  state->failed.clear();
  state->messages.clear();
  std::vector<Buffer> buffers(data.size());
  state->execute(data, buffers, groups);
  for (Buffer &b : buffers) {
    vkDestroyBuffer(state->device, b.buffer, nullptr);
    vkFreeMemory(state->device, b.memory, nullptr);
  }
  return state->failed + state->messages;
}

} // namespace g4::test
